"""Line of large requests: the reactor handles one of them in an iteration, and serves other connections in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import attrs
from twisted.internet.interfaces import IReactorTime

LARGE_REQUEST_BYTES_MIN: Final = 4 * 1024 * 1024
"""Handling a larger request, and freeing its memory, takes up to a millisecond for each 8 MB."""


@attrs.define(eq=False, repr=False)
class LargeRequests:
    _clock: IReactorTime
    _waiting: deque[Callable[[], object]] = attrs.field(factory=deque, init=False)
    _is_busy: bool = attrs.field(default=False, init=False)

    def run(self, handle: Callable[[], object]) -> None:
        """Call `handle` now; after another one in this iteration, in a later iteration."""
        if self._is_busy:
            self._waiting.append(handle)
            return
        self._is_busy = True
        self._clock.callLater(0, self._next)
        handle()

    def _next(self) -> None:
        self._is_busy = False
        if self._waiting:
            self.run(self._waiting.popleft())
