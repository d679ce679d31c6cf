"""Each API names the services that it uses, and its handler gets no others."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest

from pylogbroker.broker import services
from pylogbroker.broker.apis import APIS
from pylogbroker.broker.membership import control
from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasLogs
from pylogbroker.errors import ErrorCode
from pylogbroker.legacy07.server.connection import Legacy07Protocol
from pylogbroker.net.routes import Routes
from pylogbroker.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, QuotaAlteration
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.broker.nodes import NodeTests
from tests.net.fakes import FakeFactory, connect, frame

PROTOCOLS: Final = {
    protocol: next(name for name in vars(protocol) if not name.startswith("_"))
    for module in (services, control)
    for name, protocol in vars(module).items()
    if name.startswith("Has")
}
"""Services by the protocol that gives access to them."""

ALL: Final = frozenset(PROTOCOLS.values())

USERS: Final = {
    "authorizer": {"create_acls", "delete_acls", "describe_acls"},
    "scram": {"alter_user_scram_credentials", "describe_user_scram_credentials"},
    "sasl": {"alter_user_scram_credentials"},
    "tokens": {
        "create_delegation_token",
        "describe_delegation_token",
        "expire_delegation_token",
        "renew_delegation_token",
    },
    "membership": {"leader_and_isr", "stop_replica", "update_metadata"},
    "peers": set(),
}
"""APIs of services that guard secrets, or command the broker."""


def declared(annotation: Any) -> set[str]:
    """Return the names of the services that an annotation gives access to."""
    return {name for protocol, name in PROTOCOLS.items() if protocol in annotation.__mro__}


def annotations(api: Api) -> Iterator[tuple[str, Any]]:
    """Yield each function of an API's module that takes services, with their annotation, also inside classes."""
    module = import_module(api.module)
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if argument.arg == "services":
                    assert argument.annotation is not None, node.name
                    yield node.name, eval(ast.unparse(argument.annotation), vars(module))
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target).endswith("services"):
            yield ast.unparse(node.target), eval(ast.unparse(node.annotation), vars(module))


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_handler_gets_the_services_that_it_declares_alone(api: Api) -> None:
    """Other functions of the module, like rules of access, get the same ones, so they may not declare more."""
    every = SimpleNamespace(**{name: object() for name in ALL})
    selected = Routes([api.guarded()], every).find(api.key, api.versions.last).services
    by_function = dict(annotations(api))
    own = declared(by_function["handle"])
    assert {name for name in dir(selected) if not name.startswith("_")} == own < ALL
    assert all(getattr(selected, name) is getattr(every, name) for name in own)
    assert not hasattr(selected, "__dict__")
    assert [name for name, annotation in by_function.items() if not declared(annotation) <= own] == []


def test_secrets_and_orders_are_out_of_reach_for_other_apis() -> None:
    users = {name: {api.module.rpartition(".")[2] for api in APIS if name in api.services} for name in USERS}
    assert users == USERS


@pytest.mark.parametrize("module", [services, control], ids=lambda module: module.__name__)
def test_no_service_gives_access_to_all(module: ModuleType) -> None:
    """A service that returned the broker would give its users each other service."""
    all_services = {"Services", "LogServices", "Broker"}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            names = {name.id for name in ast.walk(node.returns) if isinstance(name, ast.Name)}
            assert not names & (all_services | {protocol.__name__ for protocol in PROTOCOLS}), node.name


def test_all_services_are_those_with_a_protocol() -> None:
    assert declared(services.Services) | {"cluster_control"} == ALL


class DispatchTests(NodeTests):
    """Requests of a connection."""

    def setUp(self) -> None:
        super().setUp()
        self.errors: list[str] = []
        self.seen: list[object] = []

    def handle(self, services: HasLogs, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        """Try to read and to replace services."""
        self.seen.append(services.logs)
        anything: Any = services
        for attempt in (
            lambda: anything.scram,
            lambda: setattr(anything, "logs", None),
            lambda: delattr(anything, "logs"),
        ):
            with pytest.raises(AttributeError) as error:
                attempt()
            self.errors.append(str(error.value))
        return HeartbeatResponse(ErrorCode.NONE)

    def heartbeat(self) -> None:
        factory = FakeFactory(
            (Api.of(HeartbeatRequest, self.handle),), services=self.node.broker, quotas=self.node.broker.quotas
        )
        protocol, transport = connect(factory)
        protocol.dataReceived(frame(HeartbeatRequest("g"), 3, 1))
        self.assertEqual(len(transport.sent), 1)

    def test_a_handler_of_logs_cannot_reach_passwords(self) -> None:
        self.heartbeat()
        self.assertEqual(self.seen, [self.node.broker.logs])
        self.assertEqual(
            self.errors,
            [
                "'Services(logs)' object has no attribute 'scram'",
                "Services(logs) is read-only: 'logs' cannot be set",
                "Services(logs) is read-only: 'logs' cannot be deleted",
            ],
        )

    def test_a_quota_opens_no_way_around(self) -> None:
        alteration = QuotaAlteration([EntityData("user", None)], [OpData("request_percentage", 100.0, False)])
        api = next(api for api in APIS if api.key == AlterClientQuotasRequest.api_key)
        self.node.ask(api.handle, AlterClientQuotasRequest([alteration]))
        self.assertIsNotNone(self.node.broker.quotas.meters)
        self.heartbeat()
        self.assertEqual(len(self.errors), 3)

    def test_handlers_of_the_simple_protocol_get_theirs(self) -> None:
        connection = Legacy07Protocol("10.0.0.1")
        connection.factory = FakeFactory((), services=self.node.broker)
        connection.makeConnection(connect(FakeFactory(()))[1])
        own = {name for name in dir(connection._services) if not name.startswith("_")}
        self.assertEqual(own, {"config", "controller", "metadata", "partitions", "runtime"})
