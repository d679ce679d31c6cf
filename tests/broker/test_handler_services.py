"""Each API names the services that it uses, and cannot reach others through them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import pytest

from pylogbroker.broker import services
from pylogbroker.broker.apis import APIS
from pylogbroker.broker.membership import control
from pylogbroker.broker.requests.api import Api

PROTOCOLS: Final = {
    protocol: next(name for name in vars(protocol) if not name.startswith("_"))
    for module in (services, control)
    for name, protocol in vars(module).items()
    if name.startswith("Has")
}
"""Services by the protocol that gives access to them."""

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
    return {name for base in annotation.__mro__ for name in vars(base) if not name.startswith("_")}


def parameters(api: Api) -> Iterator[tuple[str, Any]]:
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


def used_by(api: Api) -> set[str]:
    return declared(next(iter(inspect.signature(api.handle, eval_str=True).parameters.values())).annotation)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_an_api_takes_named_services_alone(api: Api) -> None:
    takers = list(parameters(api))
    assert "handle" in dict(takers)
    for name, annotation in takers:
        own = [base for base in annotation.__mro__ if declared(base) and base not in PROTOCOLS]
        assert all(base.__module__ == api.module and not vars(base).keys() & PROTOCOLS.values() for base in own), name
        assert declared(annotation) < set(PROTOCOLS.values()), name
        assert declared(annotation) <= used_by(api), name


def test_secrets_and_orders_are_out_of_reach_for_other_apis() -> None:
    reached = {name: {api.module.rpartition(".")[2] for api in APIS if name in used_by(api)} for name in USERS}
    assert reached == USERS


@pytest.mark.parametrize("module", [services, control], ids=lambda module: module.__name__)
def test_no_service_gives_access_to_all(module: ModuleType) -> None:
    """A service that returned the broker would give its users each other service."""
    all_services = {"Services", "LogServices", "Broker"}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            names = {name.id for name in ast.walk(node.returns) if isinstance(name, ast.Name)}
            assert not names & (all_services | {protocol.__name__ for protocol in PROTOCOLS}), node.name


def test_all_services_are_those_with_a_protocol() -> None:
    assert declared(services.Services) | {"cluster_control"} == set(PROTOCOLS.values())
