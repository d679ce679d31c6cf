"""Event queue: the calls that an operation causes run after the operation, never within it.

A reply may bring the next request at once, and an append may finish before `append` returns. Either would find a state
machine between two states. So the queue runs both in order when the outermost operation ends:

    with events:
        ...                             # change the state
        events.reply(reply, result)     # runs at the end of the operation
        log.append(..., events.as_event(stored))

An operation may answer thousands of members. `deliver` gets successive replies together and may pause between them: the
state that they describe is complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import ParamSpec, TypeVar

import attrs

from pylogbroker.coordinators.states import Reply

_P = ParamSpec("_P")
_T = TypeVar("_T")

Call = Callable[[], None]
Deliver = Callable[[Iterable[Call]], None]
"""Runs all replies, now or later."""


def run_all(calls: Iterable[Call]) -> None:
    """Run all calls, then raise the first failure."""
    failures = []
    for call in calls:
        try:
            call()
        except Exception as failure:  # other calls must run
            failures.append(failure)
    if failures:
        raise failures[0]


@attrs.define(eq=False, repr=False)
class EventQueue:
    _deliver: Deliver = run_all
    _queue: deque[Call] = attrs.field(factory=deque, init=False)
    _replies: list[Call] | None = attrs.field(default=None, init=False)  # those at the end of the queue
    _depth: int = attrs.field(default=0, init=False)

    def reply(self, reply: Reply[_T], result: _T) -> None:
        if self._replies is None:
            self._replies = []
            self._queue.append(partial(self._send, self._replies))
        self._replies.append(partial(reply, result))

    def as_event(self, call: Callable[_P, None]) -> Callable[_P, None]:
        """Return a callback for any time, which runs `call` as an operation."""

        def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
            with self:
                self._replies = None
                self._queue.append(partial(call, *args, **kwargs))

        return run

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *failure: object) -> None:
        try:
            if self._depth == 1:
                run_all(self._calls())
        finally:
            self._depth -= 1

    def _calls(self) -> Iterator[Call]:
        while self._queue:
            yield self._queue.popleft()

    def _send(self, replies: list[Call]) -> None:
        if replies is self._replies:
            self._replies = None
        if len(replies) == 1:
            replies[0]()
        else:
            self._deliver(replies)
