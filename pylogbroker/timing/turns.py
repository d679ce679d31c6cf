"""One thing at a time: what an operation causes runs after the operation, never within it.

An answer may make a connection hand in its next request at once, and a store may be done before `append` returns.
Either would find a group half way between two states. So inside a turn both are put in a queue, and the queue is
worked off, in order, when the outermost turn ends:

    with turns:
        ...                             # change the state
        turns.soon(reply, result)       # runs at the end of the turn
        store.append(..., turns.later(stored))
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ParamSpec

import attrs

_P = ParamSpec("_P")


@attrs.define(eq=False)
class Turns:
    """The queue of what is still to be called, and how deep in operations we are."""

    _queue: deque[Callable[[], None]] = attrs.field(factory=deque, init=False)
    _depth: int = attrs.field(default=0, init=False)

    def soon(self, call: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Call `call` with these arguments at the end of the turn."""
        self._queue.append(lambda: call(*args, **kwargs))

    def later(self, call: Callable[_P, None]) -> Callable[_P, None]:
        """A callback for others to call at any time, which runs as a turn of its own."""

        def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
            with self:
                self.soon(call, *args, **kwargs)

        return run

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *failure: object) -> None:
        try:
            if self._depth == 1:
                self._work_off()
        finally:
            self._depth -= 1

    def _work_off(self) -> None:
        failures = []
        while self._queue:
            try:
                self._queue.popleft()()
            except Exception as failure:  # the others are still owed theirs
                failures.append(failure)
        if failures:
            raise failures[0]
