"""Context of a request: what handlers get besides its body.

Work may outlast the connection (`Api.is_read` has the kind of an API):

    reads      stop: the Deferred is cancelled, and jobs in worker threads check `Caller.is_gone`
    changes    continue to their end; the answer is dropped
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from pylogbroker.security.principals import ANONYMOUS

if TYPE_CHECKING:
    from pylogbroker.broker.requests.rejected_batches import RejectedBatches
    from pylogbroker.broker.security.access import Access


def _charge_nobody() -> None:
    pass


@attrs.define(eq=False, repr=False)
class Caller:
    """Connection that sent a request.

    `is_gone` is True after it closed; any thread may read it. `charged` is the memory of answers in preparation, in
    bytes; it counts towards `queued.max.request.bytes`.
    """

    is_gone: bool = False
    charged: int = 0
    _on_charge: Callable[[], None] = _charge_nobody
    unanswered: Sequence[object] = ()
    """Places of answers that are not sent, in the order of the requests."""
    rejected_batches: RejectedBatches | None = attrs.field(default=None, init=False)
    software: tuple[str, str] | None = attrs.field(default=None, init=False)
    """Name and version of the client, as it says in ApiVersions."""

    _on_leave: Sequence[Callable[[], None]] = attrs.field(default=(), init=False)

    def call_on_leave(self, action: Callable[[], None]) -> None:
        """Call an action when the connection closes; at once if it has closed."""
        if self.is_gone:
            action()
        else:
            self._on_leave = (*self._on_leave, action)

    def charge(self, size: int) -> None:
        """Add `size`, which may be negative, to `charged`.  Reactor thread only."""
        self.charged += size
        self._on_charge()

    def leave(self) -> None:
        self.is_gone = True
        self._on_charge = _charge_nobody
        self.unanswered = ()
        self.rejected_batches = None
        actions, self._on_leave = self._on_leave, ()
        for action in actions:
            action()


@attrs.frozen
class RequestContext:
    """Client, listener, local address and version; requests of a connection that agree on these share one.

    `access` is None in a broker without an authorizer: everything is allowed.
    """

    api_version: int
    client_id: str | None = None
    client_host: str = ""
    local_host: str = ""
    listener: str = "PLAINTEXT"
    principal: str = ANONYMOUS
    caller: Caller = attrs.field(factory=Caller, eq=False)
    access: Access | None = attrs.field(default=None, eq=False)
    by_token: bool = False
    """The client has connected by a delegation token of the principal."""

    @property
    def required_access(self) -> Access:
        """Raise LookupError if the request came without identity to a broker that has an authorizer."""
        if self.access is None:
            raise LookupError("the request has no identity")
        return self.access
