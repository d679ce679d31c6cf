"""Context of a request: all that a handler gets besides its body.

Work for a request may outlast the connection that sent it.  What becomes of it then follows from what it does:

    reads      stops: its Deferred is cancelled, and jobs in worker threads look at `Caller.is_gone`
    changes    goes on to its end; the answer is dropped

`Api.is_read` says which of the two an API is.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs


def _charge_nobody() -> None:
    pass


@attrs.define(eq=False)
class Caller:
    """The connection that sent a request, as the work for it sees it.

    `is_gone` turns true when the connection is closed; any thread may look.  `charged` counts the bytes in memory that
    answers take while they are prepared; they count to `queued.max.request.bytes`.
    """

    is_gone: bool = False
    charged: int = 0
    _on_charge: Callable[[], None] = _charge_nobody

    def charge(self, size: int) -> None:
        """Count `size` bytes more, or fewer if it is negative.  Reactor thread only."""
        self.charged += size
        self._on_charge()

    def leave(self) -> None:
        """Note that the connection is closed."""
        self.is_gone = True
        self._on_charge = _charge_nobody


@attrs.frozen
class RequestContext:
    """Who asks, over which listener and at which of its addresses, in which version.

    One value serves all requests that a connection sends with the same API, version and client id.
    """

    api_version: int
    client_id: str | None = None
    client_host: str = ""
    local_host: str = ""
    listener: str = "PLAINTEXT"
    principal: str = "User:ANONYMOUS"
    caller: Caller = attrs.field(factory=Caller, eq=False)
