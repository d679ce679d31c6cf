"""Submission of records from any thread: one call on the reactor thread takes all that wait.

`submit` waits while too many bytes are unacknowledged. Each byte count has one writer, so finishing takes no lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

T = TypeVar("T")

UNACKNOWLEDGED_BYTES_MAX = 32 << 20


@attrs.frozen
class Submitted(Generic[T]):
    """A record, or several; `send` sends them."""

    send: Callable[[], Deferred[T]]
    size: int
    future: Future[T] = attrs.field(factory=Future)


class Submissions:
    """Queue to the reactor thread; `call` schedules a function there."""

    def __init__(self, call: Callable[[Callable[[], None]], object]) -> None:
        self._call = call
        self._waiting: list[Submitted[Any]] = []
        self._changed = threading.Condition()
        self._blocked = 0
        self._taken = 0  # bytes submitted; written under the lock
        self._done = 0  # bytes finished; written by the reactor thread

    def submit(self, send: Callable[[], Deferred[T]], size: int, seconds: float | None) -> Future[T] | None:
        """Return the future of what `send` returns; None without space within `seconds`."""
        submitted = Submitted(send, size)
        with self._changed:
            if not self._has_space(size) and not self._wait(size, seconds):
                return None
            if not self._waiting:  # schedule before the append: Ctrl-C may come between any two statements
                self._call(self.send)
            self._waiting.append(submitted)
            self._taken += size
        return submitted.future

    def send(self) -> None:
        """Send waiting records, on the reactor thread."""
        with self._changed:
            waiting, self._waiting = self._waiting, []
        for submitted in waiting:
            if submitted.future.set_running_or_notify_cancel():
                submitted.send().addBoth(self._is_done, submitted)
            else:
                self._give_back(submitted.size)

    def _is_done(self, outcome: T | Failure, submitted: Submitted[T]) -> None:
        self._give_back(submitted.size)
        if isinstance(outcome, Failure):
            submitted.future.set_exception(outcome.value)
        else:
            submitted.future.set_result(outcome)

    def _give_back(self, size: int) -> None:
        self._done += size
        if self._blocked:
            with self._changed:
                self._changed.notify_all()

    def _has_space(self, size: int) -> bool:
        used = self._taken - self._done
        return not used or used + size <= UNACKNOWLEDGED_BYTES_MAX

    def _wait(self, size: int, seconds: float | None) -> bool:
        self._blocked += 1
        try:
            return self._changed.wait_for(lambda: self._has_space(size), seconds)
        finally:
            self._blocked -= 1
