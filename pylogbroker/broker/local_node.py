"""Identity and addresses of this broker, as it announces them."""

from __future__ import annotations

import attrs

from pylogbroker.broker.context import RequestContext
from pylogbroker.config import Listener
from pylogbroker.metadata.image import ClusterImage


@attrs.frozen
class BrokerAddress:
    id: int
    host: str
    port: int
    rack: str | None


@attrs.frozen(eq=False)
class LocalNode:
    """This broker; `listeners` have their ports once bound."""

    id: int
    cluster_id: str
    rack: str | None = None
    listeners: dict[str, Listener] = attrs.field(factory=dict, init=False)

    def address(self, context: RequestContext) -> tuple[str, int]:
        """Return this broker's host and port on the request's listener."""
        listener = self.listeners[context.listener]
        return listener.advertised_host or context.local_host, listener.advertised_port

    def live_brokers(self, image: ClusterImage, context: RequestContext) -> list[BrokerAddress]:
        found: list[BrokerAddress] = []
        for broker in image.brokers.values():
            listener = broker.listeners.get(context.listener)
            if broker.id == self.id:
                found.append(BrokerAddress(self.id, *self.address(context), self.rack))
            elif listener is not None:
                found.append(BrokerAddress(broker.id, listener.host, listener.port, broker.rack))
        return found
