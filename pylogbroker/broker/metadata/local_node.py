"""Identity and addresses of this broker, as it announces them."""

from __future__ import annotations

import attrs

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.config import Listener
from pylogbroker.metadata.image import ClusterImage


@attrs.frozen
class BrokerAddress:
    id: int
    host: str
    port: int
    rack: str | None


@attrs.frozen(eq=False, repr=False)
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
        """Return those with the request's listener: this broker, and others that the controller has announced.

        At the start of a whole cluster none is announced. Some clients never ask again after an answer without brokers.
        """
        broker_ids = image.brokers if self.id in image.brokers else (*image.brokers, self.id)
        addresses = (self.address_of(broker_id, image, context) for broker_id in broker_ids)
        return [address for address in addresses if address is not None]

    def address_of(self, broker_id: int, image: ClusterImage, context: RequestContext) -> BrokerAddress | None:
        """Return the address of this broker, or of an announced one, on the request's listener, if it has one."""
        if broker_id == self.id:
            return BrokerAddress(broker_id, *self.address(context), self.rack)
        broker = image.brokers.get(broker_id)
        listener = None if broker is None else broker.listeners.get(context.listener)
        if broker is None or listener is None:
            return None
        return BrokerAddress(broker_id, listener.host, listener.port, broker.rack)
