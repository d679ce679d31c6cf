"""Each module of `pylogbroker.broker.apis` registers one API, and no two handlers serve the same API."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Final

import pytest

from pylogbroker.broker import apis
from pylogbroker.broker.membership.control import HasClusterControl
from pylogbroker.broker.requests.api import Api, serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import unchecked
from pylogbroker.wire import SUPPORTED
from pylogbroker.wire.messages.fetch import FetchRequest
from tests.broker.security import broker_requests
from tests.wire.kafka_apis import OWN_APIS

OWN_API_KEY_MIN: Final = 10_000
"""Lower keys are left to Kafka, whose newest APIs have numbers below 100."""

NOT_SERVED: Final = {
    "AssignReplicasToDirs",
    "BrokerHeartbeat",
    "BrokerRegistration",
    "DescribeQuorum",
    "Envelope",
    "FetchSnapshot",
    "UnregisterBroker",
}
"""Declared APIs without a handler, so that ApiVersions does not advertise them.

Most are of KRaft's controllers. Members of their clusters pass DescribeQuorum and UnregisterBroker on.
"""


def test_each_module_registers_the_api_of_its_name() -> None:
    modules = {path.stem for path in Path(apis.__file__).parent.glob("*.py")} - {"__init__"}
    handlers = {api.handle.__module__.rpartition(".")[2]: api for api in apis.APIS}
    assert all(api.module == api.handle.__module__ for api in apis.APIS)
    assert set(handlers) == modules
    assert {module: api.request.__module__.rpartition(".")[2] for module, api in handlers.items()} == {
        module: module for module in modules
    }


def test_every_declared_api_is_served_or_known_to_be_not() -> None:
    served = {api.key for api in apis.APIS}
    assert {SUPPORTED[key][0].__name__.removesuffix("Request") for key in SUPPORTED if key not in served} == NOT_SERVED


def test_apis_of_clusters_are_marked() -> None:
    """Some need the controller, others are sent by brokers."""
    need_controller = {api.name for api in apis.APIS if HasClusterControl in _services(api).__mro__}
    between_brokers = {type(request).__name__.removesuffix("Request") for request, _ in broker_requests.REQUESTS}
    assert {"AlterPartition", "ControlledShutdown"} <= need_controller
    assert {api.name for api in apis.APIS if api.cluster_only} == need_controller | between_brokers


def _services(api: Api) -> type:
    """Return the protocol of the services that a handler gets."""
    services: Parameter = next(iter(signature(api.handle, eval_str=True).parameters.values()))
    assert isinstance(services.annotation, type)
    return services.annotation


def test_own_apis_are_not_kafkas() -> None:
    served = {api.name: api.key for api in apis.APIS}
    assert [name for name in OWN_APIS if served.get(name, 0) < OWN_API_KEY_MIN] == []
    assert [name for name, key in served.items() if key >= OWN_API_KEY_MIN and name not in OWN_APIS] == []


def test_a_handler_is_imported_when_it_is_needed() -> None:
    code = (
        "import sys\nfrom pylogbroker.broker.apis import APIS, import_all\n"
        "def count(): return sum(name.startswith('pylogbroker.broker.apis.') for name in sys.modules)\n"
        "guarded = [api.guarded() for api in APIS]\n"
        "print(count(), [api for api in guarded if api.name == 'DeleteRecords'][0].is_read, count(), end=' ')\n"
        "import_all()\nprint(count() - len(APIS))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False", "1", "0"]


def test_the_first_fetch_does_not_wait_for_the_state_machines_of_replicas() -> None:
    code = "import sys, pylogbroker.broker.apis.fetch\nprint('pylogbroker.replication.leader' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_an_api_has_rules_of_access() -> None:
    with pytest.raises(ValueError, match=r"Fetch does not say what its sender must be allowed"):
        serves(FetchRequest, access=[])(lambda broker, context, request: None)


def test_an_api_has_one_handler() -> None:
    import_module("pylogbroker.broker.apis.fetch")
    with pytest.raises(ValueError, match=r"Fetch has two handlers: pylogbroker.broker.apis.fetch and .*test_api_reg"):
        serves(FetchRequest, access=[unchecked])(_handle)


def test_a_handler_declares_its_services() -> None:
    with pytest.raises(ValueError, match=r"Fetch does not say which services its handler uses"):
        serves(FetchRequest, access=[unchecked])(lambda services, context, request: None)


def _handle(services: object, context: RequestContext, request: FetchRequest) -> None:
    """Answer nothing."""


def test_every_api_declares_its_access_checks() -> None:
    assert [api.name for api in apis.APIS if not api.access] == []
    assert {api.name for api in apis.APIS if unchecked in api.access} == {
        "ApiVersions",
        "GetTelemetrySubscriptions",
        "PushTelemetry",
        "SaslHandshake",
        "SaslAuthenticate",
    }
