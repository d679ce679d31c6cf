"""Reads of several connections in one iteration of the reactor, whose first requests are handled together.

    a connection is read --> its first request may be joined --> waits for the iteration's other reads
                         --> any other -----------------------> its round of work begins at once
    the last read, or many bytes --> the requests that change the same are handled together --> rounds of work

A request that waits has not begun. Whatever happens meanwhile comes before it, as if it had been received later. So a
connection that is lost takes its requests along. Nothing runs between the checks of the requests and their end.

With one event in an iteration, nothing waits. With more than `JOINED_BYTES_MAX`, what waits is handled, and the next
reads wait again: this bounds memory, and the time until the first answer.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
from twisted.logger import Logger

from pylogbroker.net.flow_control import RUNNING, FlowControl, Round

if TYPE_CHECKING:
    from pylogbroker.broker.repeated import JoinableRequest
    from pylogbroker.broker.requests.deferred_actions import DeferredActions
    from pylogbroker.net.routes import Route

log = Logger()

JOINED_BYTES_MAX: Final = 128 * 1024


class JoiningConnection(Protocol):
    @property
    def deferred_actions(self) -> DeferredActions: ...
    def begin_joined_round(self, read: JoinedRead, /) -> None:
        """Answer the first requests, if they were handled, and begin the others."""

    def abort(self) -> None:
        """Close at once, after an error in the broker."""


@attrs.define(eq=False, repr=False)
class JoinedRead:
    """Requests of a connection that wait; its `form` handles the first of them that have it."""

    connection: JoiningConnection
    flow: FlowControl
    frames: deque[memoryview]
    route: Route
    form: JoinableRequest
    outcome: Any = None


class JoinedReads:
    """Reads of an iteration that wait; `is_open` while several connections are read."""

    __slots__ = ("_bytes", "_reads", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._reads: list[JoinedRead] = []
        self._bytes = 0

    def add(self, read: JoinedRead, size: int) -> None:
        """Let the requests of a read of `size` bytes wait."""
        self._reads.append(read)
        self._bytes += size
        if self._bytes >= JOINED_BYTES_MAX:
            self.handle()

    def close(self) -> None:
        """Handle what waits: all connections of the iteration are read."""
        self.is_open = False
        if self._reads:
            self.handle()

    def handle(self) -> None:
        """Handle what waits."""
        reads, self._reads, self._bytes = self._reads, [], 0
        by_subject: dict[Any, list[JoinedRead]] = {}
        for read in reads:
            if read.flow.round is Round.WAITING:  # else the requests have begun meanwhile
                read.flow.round = RUNNING
                by_subject.setdefault(read.form.subject, []).append(read)
        for group in by_subject.values():
            actions = group[0].connection.deferred_actions
            actions.hold()
            try:
                group[0].form.handle_joined(group)
                for read in group:
                    _begin_round(read)
            except Exception:
                log.failure("requests of {count} connections failed", count=len(group))
                for read in group:
                    read.connection.abort()
            finally:
                actions.run()


def _begin_round(read: JoinedRead) -> None:
    try:
        read.connection.begin_joined_round(read)
    except Exception:
        log.failure("requests of a connection failed")
        read.connection.abort()


def joined_reads_of(reactor: Any) -> JoinedReads:
    """Return the reads of a reactor's iterations; unless it polls as `net.poller` does, they are never open."""
    joined = getattr(getattr(reactor, "_poller", None), "joined_reads", None)
    return joined if isinstance(joined, JoinedReads) else JoinedReads()
