"""The broker for tests of programs that use Kafka.

    from pylogbroker.testing import Broker

    with Broker() as broker:
        run_my_service(broker.bootstrap)

The page `docs/testing.md` describes it. Classes are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pylogbroker.lazy_names import lazy_names

if TYPE_CHECKING:
    from pylogbroker.testing.broker import Broker, kafka_cluster
    from pylogbroker.testing.handle import Kafka
    from pylogbroker.testing.memory_broker import MemoryBroker

__all__ = ["Broker", "Kafka", "MemoryBroker", "kafka_cluster"]

_MODULES: Final = {
    "Broker": ".broker",
    "Kafka": ".handle",
    "MemoryBroker": ".memory_broker",
    "kafka_cluster": ".broker",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
