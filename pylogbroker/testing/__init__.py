"""The broker for tests of programs that use Kafka.

    from pylogbroker.testing import Broker

    with Broker() as broker:
        run_my_service(broker.bootstrap)

The page `docs/testing.md` describes it. Classes are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pylogbroker.testing.broker import Broker
    from pylogbroker.testing.memory_broker import MemoryBroker

__all__ = ["Broker", "MemoryBroker"]

_MODULES: Final = {"Broker": "broker", "MemoryBroker": "memory_broker"}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
