"""APIs that this broker serves, one module for each.

To add an API, declare its message in `pylogbroker.wire.messages` and put its module, of the same name, here. A module
is imported at the first request of its API: most brokers are asked for few of them.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from pylogbroker.broker.requests.api import Api, HandledRequest, registered
from pylogbroker.broker.requests.offered_versions import offered_versions
from pylogbroker.wire import SUPPORTED

_CLUSTER_ONLY: Final = frozenset(
    {
        "allocate_producer_ids",
        "alter_partition",
        "controlled_shutdown",
        "leader_and_isr",
        "stop_replica",
        "update_metadata",
    }
)
"""Modules of APIs that a broker does not offer if it is alone in its cluster."""


def _import(name: str, key: int) -> HandledRequest:
    import_module(name)
    return registered(key)


def _find_all() -> tuple[Api, ...]:
    handlers = {module.name for module in iter_modules(__path__)}
    apis = []
    for key, declared in SUPPORTED.declared.items():
        if declared.module in handlers:
            module = f"{__name__}.{declared.module}"
            load = partial(_import, module, key)
            cluster_only = declared.module in _CLUSTER_ONLY
            apis.append(Api(key, declared.name, offered_versions(key), module, cluster_only, load))
    return tuple(apis)


APIS: Final = _find_all()


def import_all() -> None:
    """Import the modules of all APIs, for processes that are forked later, or lose sight of the package's files."""
    for api in APIS:
        import_module(api.module)
