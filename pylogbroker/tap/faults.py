"""Faults of a broker that programs are tested with. Without `testing.faults=true` there are none, and no code of them.

Their code is above this package, so its name stands for it.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any, Final, Protocol

from twisted.logger import Logger

from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.services import Services
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.net.service import KafkaFactory, SharedLimits
from pylogbroker.web.fault_port import FaultPort

log = Logger()

_FAULTS: Final = "pylogbroker.testing.faults:Faults"


class BrokerFaults(FaultPort, Protocol):
    """Faults of one broker, or of several that run in the same thread; they act on connections."""

    def attach(self, reactor: Any, broker: Broker, /) -> None:
        """Note a broker that is about to listen, on its thread."""

    async def detach(self, broker: Broker, /) -> None:
        """Forget a broker: it stops."""

    def factory(
        self, reactor: Any, services: Services, listener: Listener, bounds: SharedLimits, /
    ) -> KafkaFactory: ...


def faults_of(config: BrokerConfig) -> BrokerFaults | None:
    if not config.testing_faults:
        return None
    faults: BrokerFaults = resolve_name(_FAULTS)()
    return faults


def warn_of_faults() -> None:
    log.warn("testing.faults=true: requests may fail on purpose. Use this broker for tests alone")
