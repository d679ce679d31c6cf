"""Event queue: the calls that an operation causes run after the operation, never within it.

A reply may bring the next request at once, and an append may finish before `append` returns. Either would find a state
machine between two states. So the queue runs both in order when the outermost operation ends:

    with events:
        ...                             # change the state
        events.enqueue(reply, result)   # runs at the end of the operation
        log.append(..., events.as_event(stored))
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ParamSpec

import attrs

_P = ParamSpec("_P")


@attrs.define(eq=False)
class EventQueue:
    _queue: deque[Callable[[], None]] = attrs.field(factory=deque, init=False)
    _depth: int = attrs.field(default=0, init=False)

    def enqueue(self, call: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        self._queue.append(lambda: call(*args, **kwargs))

    def as_event(self, call: Callable[_P, None]) -> Callable[_P, None]:
        """Return a callback for any time, which runs `call` as an operation."""

        def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
            with self:
                self.enqueue(call, *args, **kwargs)

        return run

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *failure: object) -> None:
        try:
            if self._depth == 1:
                self._drain()
        finally:
            self._depth -= 1

    def _drain(self) -> None:
        failures = []
        while self._queue:
            try:
                self._queue.popleft()()
            except Exception as failure:  # other calls must run
                failures.append(failure)
        if failures:
            raise failures[0]
