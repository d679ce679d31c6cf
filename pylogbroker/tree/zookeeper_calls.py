"""Calls to ZooKeeper: one request each, or one of many reads, in a queue that sends a few at a time."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import attrs
from kazoo.client import KazooClient
from twisted.internet.defer import Deferred

from pylogbroker.interfaces import CoordinationError, Node, NoNode, Unavailable, Watch
from pylogbroker.tree.kazoo_session import Submission
from pylogbroker.tree.kazoo_values import stat_of


@attrs.frozen(eq=False, repr=False)
class SetWatch:
    path: str
    watch: Watch


@attrs.frozen(eq=False, repr=False)
class SingleCall:
    path: str
    submission: Submission
    watch: SetWatch | None = None
    done: Deferred[Any] = attrs.field(factory=Deferred)

    def succeed(self, value: Any) -> None:
        if not self.done.called:  # else its caller has cancelled it
            self.done.callback(value)

    def fail(self, error: CoordinationError) -> None:
        if not self.done.called:
            self.done.errback(error)


@attrs.define(eq=False, repr=False)
class ManyReads:
    """Reads of several nodes, whose values come one by one; missing nodes are None."""

    values: list[Node | None]
    _unanswered: int
    done: Deferred[list[Node | None]] = attrs.field(factory=Deferred)

    def answered(self, index: int, value: Node | None) -> None:
        self.values[index] = value
        self._unanswered -= 1
        if not self._unanswered and not self.done.called:
            self.done.callback(self.values)

    def fail(self, error: CoordinationError) -> None:
        if not self.done.called:
            self.done.errback(error)


@attrs.frozen(eq=False, repr=False)
class ReadOfMany:
    """One of several reads. It needs no Deferred of its own, as ten thousand of them would cost much time."""

    path: str
    submission: Submission
    many: ManyReads
    index: int
    watch: None = None

    @classmethod
    def of(cls, path: str, absolute: str, many: ManyReads, index: int) -> ReadOfMany:
        return cls(path, partial(_get, absolute), many, index)

    def succeed(self, value: Any) -> None:
        data, stat = value
        self.many.answered(self.index, Node(data, stat_of(stat)))

    def fail(self, error: CoordinationError) -> None:
        if isinstance(error, NoNode):
            self.many.answered(self.index, None)
        else:
            self.many.fail(error)


Call = SingleCall | ReadOfMany


@attrs.define(eq=False, repr=False)
class CallQueue:
    """Calls in their order: those that wait, and up to `in_flight_max` that were sent, each on a connection."""

    _in_flight_max: int
    _waiting: deque[Call] = attrs.field(init=False, factory=deque)
    _in_flight: dict[Call, int] = attrs.field(init=False, factory=dict)
    _idle: Deferred[None] | None = attrs.field(init=False, default=None)

    def add(self, call: Call) -> None:
        self._waiting.append(call)

    def send_next(self, connection: int) -> Call | None:
        """Return a call to send now, if there is one."""
        if not self._waiting or len(self._in_flight) >= self._in_flight_max:
            return None
        call = self._waiting.popleft()
        self._in_flight[call] = connection
        return call

    def remove(self, call: Call) -> int | None:
        """Return the connection that the call was sent on; None if it has failed before."""
        return self._in_flight.pop(call, None)

    def fail_all(self, error: type[Unavailable]) -> None:
        calls = [*self._in_flight, *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        for call in calls:
            call.fail(error(f"{call.path} (no connection to ZooKeeper)"))
        self.check_idle()

    @property
    def is_empty(self) -> bool:
        return not self._in_flight and not self._waiting

    @property
    def is_draining(self) -> bool:
        return self._idle is not None

    def drain(self) -> Deferred[None]:
        """Return a Deferred for the end of the last call."""
        self._idle = Deferred()
        return self._idle

    def check_idle(self) -> None:
        """Called when answered calls have taken effect."""
        if self._idle is not None and self.is_empty:
            idle, self._idle = self._idle, None
            idle.callback(None)


def _get(path: str, client: KazooClient) -> Any:
    return client.get_async(path)
