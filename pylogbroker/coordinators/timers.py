"""Timers without a clock: the owner of the clock reads `next_due` and calls `fire_next`.

To move a deadline to a later time, as every heartbeat does, costs one assignment. The heap keeps the earlier time, at
which the timer is pushed again.

To cancel a timer costs one assignment, too. When the heap has doubled, cancelled timers are dropped: clients choose
deadlines, which may be weeks away.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, Final

import attrs

from pylogbroker.long_loops import advance

Action = Callable[[int], None]  # called with the time in ms
_SWEPT_ENTRIES_MIN: Final = 1000
"""Size from which the heap is searched for cancelled timers."""


@attrs.define(eq=False, repr=False)
class Timer:
    """Action at `due`, unless cancelled or moved before."""

    action: Action
    due: int
    queued: int  # time of its valid heap entry
    live: bool = True

    def cancel(self) -> None:
        self.live = False


def cancel(timer: Timer | None) -> None:
    if timer is not None:
        timer.cancel()


def no_wakeup(due: int) -> None:
    """Do nothing: the driver polls `next_due`."""


@attrs.define(eq=False, repr=False)
class Timers:
    """Calls `on_earlier(due)` for each new earliest deadline."""

    on_earlier: Callable[[int], None] = no_wakeup
    _heap: list[tuple[int, int, Timer]] = attrs.field(factory=list, init=False)
    _order: count[int] = attrs.field(factory=count, init=False)
    _entries_max: int = attrs.field(default=_SWEPT_ENTRIES_MIN, init=False)  # until the next search

    def start(self, due: int, action: Action) -> Timer:
        timer = Timer(action, due, due)
        self._push(timer)
        return timer

    def start_periodic(self, due: int, interval_ms: int, begin: Callable[[int], Coroutine[Any, Any, None]]) -> Timer:
        """Begin a run at `due` and every `interval_ms`, until cancelled; other timers fire where it gives way."""
        work: Coroutine[Any, Any, None] | None = None
        next_due = due

        def take_step(now_ms: int) -> None:
            nonlocal work, next_due
            if work is None:
                work, next_due = begin(now_ms), now_ms + interval_ms
            self.move(timer, now_ms + 1)
            is_left = False
            try:
                is_left = advance(work)
            finally:
                if not is_left:
                    work = None
                    if timer.live:
                        self.move(timer, next_due)

        timer = self.start(due, take_step)
        return timer

    def move(self, timer: Timer, due: int) -> None:
        """Set another deadline, also of a fired timer."""
        timer.due = due
        if not timer.live or due < timer.queued:
            timer.live = True
            timer.queued = due
            self._push(timer)

    def next_due(self) -> int | None:
        """Return when to call `fire_next`, at or before the earliest deadline."""
        while self._heap and not self._is_valid(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def fire_next(self, now_ms: int) -> bool:
        """Run the earliest action that is due; return False if none is."""
        while (due := self.next_due()) is not None and due <= now_ms:
            timer = heapq.heappop(self._heap)[2]
            if timer.due <= now_ms:
                timer.live = False
                timer.action(now_ms)
                return True
            timer.queued = timer.due
            self._push(timer)
        return False

    def _push(self, timer: Timer) -> None:
        if len(self._heap) >= self._entries_max:
            self._drop_invalid()
        earliest = self.next_due()
        heapq.heappush(self._heap, (timer.queued, next(self._order), timer))
        if earliest is None or timer.queued < earliest:
            self.on_earlier(timer.queued)

    def _drop_invalid(self) -> None:
        self._heap = [entry for entry in self._heap if self._is_valid(entry)]
        heapq.heapify(self._heap)
        self._entries_max = max(2 * len(self._heap), _SWEPT_ENTRIES_MIN)

    @staticmethod
    def _is_valid(entry: tuple[int, int, Timer]) -> bool:
        return entry[2].live and entry[2].queued == entry[0]
