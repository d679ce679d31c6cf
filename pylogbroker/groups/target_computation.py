"""Computation of target assignments: one at a time for a group, and at most once in an interval.

A long assignment is computed in a thread. Until there is a new one, members follow the former one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import attrs

from pylogbroker.coordinators import EventQueue, Timer, Timers, cancel
from pylogbroker.groups.assigned_group import AssignedGroup


class AssignmentWork(Protocol):
    @property
    def size(self) -> int:
        """Return the number of members and partitions."""

    def run(self) -> Any:
        """Return the target assignment, in any thread."""


G = TypeVar("G", bound=AssignedGroup[Any, Any])
Compute = Callable[[Callable[[], Any], int, Callable[[Any, int], None]], None]


@attrs.define(eq=False, repr=False)
class _Progress:
    """Work of a group that is under way; most groups have none."""

    is_computing: bool = False
    waiting: list[Callable[[int], None]] = attrs.field(factory=list)  # requests that need the target
    timer: Timer | None = None  # of the next computation


@attrs.define(eq=False, repr=False)
class TargetComputation(Generic[G]):
    _events: EventQueue
    _timers: Timers
    _compute_in_port: Compute
    _interval_ms: Callable[[G], int]
    _make_task: Callable[[G], AssignmentWork]
    _take: Callable[[G, Any, Any, int], None]
    """Takes the task and its outcome, a target assignment or an exception."""
    _store: Callable[[G, int], None]
    _progress: dict[G, _Progress] = attrs.field(factory=dict, init=False)

    def is_computing(self, group: G) -> bool:
        progress = self._progress.get(group)
        return progress is not None and progress.is_computing

    def when_computed(self, group: G, go_on: Callable[[int], None]) -> None:
        """Call `go_on` when the computation under way is done, or the group is unloaded."""
        self._progress[group].waiting.append(go_on)

    def begin(self, group: G, now_ms: int) -> None:
        """Compute the target assignment of the group's epoch, now or when the interval is over."""
        if not group.members or group.target_epoch >= group.epoch:
            return
        progress = self._progress.get(group)
        if progress is None:
            progress = self._progress[group] = _Progress()
        if progress.is_computing:
            return
        interval_ms = self._interval_ms(group)
        due = group.assigned_ms + interval_ms
        if not now_ms < due <= now_ms + interval_ms:
            cancel(progress.timer)
            self._compute(group, progress)
            self._end(group)
        elif progress.timer is None or not progress.timer.live:
            progress.timer = self._timers.start(due, partial(self._compute_later, group))

    def stop(self, group: G, now_ms: int) -> None:
        """Stop the work of a group that is unloaded; requests that wait go on."""
        progress = self._progress.pop(group, None)
        if progress is not None:
            cancel(progress.timer)
            self._resume(progress, now_ms)

    def _compute_later(self, group: G, now_ms: int) -> None:
        progress = self._progress.get(group)
        if progress is not None and group.members and not group.is_dead and group.target_epoch < group.epoch:
            self._compute(group, progress)
            self._store(group, now_ms)
        self._end(group)

    def _compute(self, group: G, progress: _Progress) -> None:
        task = self._make_task(group)
        progress.is_computing = True
        is_here = True

        def computed(outcome: Any, done_ms: int) -> None:
            if is_here:
                self._computed(group, progress, task, outcome, done_ms)
            else:
                self._events.as_event(self._computed_later)(group, progress, task, outcome, done_ms)

        self._compute_in_port(task.run, task.size, computed)
        is_here = False

    def _computed(self, group: G, progress: _Progress, task: AssignmentWork, outcome: Any, now_ms: int) -> None:
        progress.is_computing = False
        if not group.is_dead:
            self._take(group, task, outcome, now_ms)

    def _computed_later(self, group: G, progress: _Progress, task: AssignmentWork, outcome: Any, now_ms: int) -> None:
        self._computed(group, progress, task, outcome, now_ms)
        self._resume(progress, now_ms)
        if not group.is_dead:
            if not isinstance(outcome, Exception):
                self.begin(group, now_ms)
            self._store(group, now_ms)
        self._end(group)

    @staticmethod
    def _resume(progress: _Progress, now_ms: int) -> None:
        waiting, progress.waiting = progress.waiting, []
        for go_on in waiting:
            go_on(now_ms)

    def _end(self, group: G) -> None:
        """Forget what a group has under way if that is nothing."""
        progress = self._progress.get(group)
        if progress is None or progress.is_computing or progress.waiting:
            return
        if progress.timer is None or not progress.timer.live:
            del self._progress[group]
