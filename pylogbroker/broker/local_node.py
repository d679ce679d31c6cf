"""Identity and addresses of this broker, as it announces them."""

from __future__ import annotations

import attrs

from pylogbroker.broker.context import RequestContext
from pylogbroker.config import Listener


@attrs.frozen(eq=False)
class LocalNode:
    """This broker in its cluster; `listeners` has each listener with its port, once it is bound."""

    id: int
    cluster_id: str
    rack: str | None = None
    listeners: dict[str, Listener] = attrs.field(factory=dict, init=False)

    def address(self, context: RequestContext) -> tuple[str, int]:
        """Return the host and port at which the sender of a request reaches this broker."""
        listener = self.listeners[context.listener]
        return listener.advertised_host or context.local_host, listener.advertised_port
