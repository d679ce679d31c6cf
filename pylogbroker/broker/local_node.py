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
        found = (self.address_of(broker_id, image, context) for broker_id in image.brokers)
        return [address for address in found if address is not None]

    def address_of(self, broker_id: int, image: ClusterImage, context: RequestContext) -> BrokerAddress | None:
        """Return a registered broker's address on the request's listener, if it has one."""
        broker = image.brokers.get(broker_id)
        if broker is None:
            return None
        if broker_id == self.id:
            return BrokerAddress(broker_id, *self.address(context), self.rack)
        listener = broker.listeners.get(context.listener)
        return None if listener is None else BrokerAddress(broker_id, listener.host, listener.port, broker.rack)
