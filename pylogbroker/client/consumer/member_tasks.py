"""Tasks and the timer of a group's member, which end with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

log = Logger()


@attrs.define(eq=False, repr=False)
class MemberTasks:
    _group: str
    _clock: IReactorTime
    _timer: Any = attrs.field(init=False, default=None)
    _tasks: dict[Deferred[None], None] = attrs.field(init=False, factory=dict)

    def now_ms(self) -> int:
        return int(self._clock.seconds() * 1000)

    def spawn(self, work: Awaitable[None]) -> None:
        """Run a coroutine; log its failure."""
        task: Deferred[None] = ensureDeferred(work)  # type: ignore[arg-type]
        self._tasks[task] = None
        task.addErrback(lambda failure: log.failure("a task of the group {group} failed", failure, group=self._group))
        task.addBoth(lambda _: self._tasks.pop(task, None))

    def schedule(self, due_ms: int | None, tick: Callable[[], None]) -> None:
        """Call `tick` at a time instead of at the one that was scheduled before; None: do not."""
        self._stop_timer()
        if due_ms is not None:
            self._timer = self._clock.callLater(max(0, due_ms - self.now_ms()) / 1000, tick)

    def cancel(self) -> None:
        self._stop_timer()
        for task in list(self._tasks):
            task.cancel()

    def _stop_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
