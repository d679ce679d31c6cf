"""Records on their way from any thread to the reactor's, in lots: one turn takes all that came since the last one.

What is on its way and not acknowledged is bounded by its bytes; who has more waits. The counts of what came in and of
what is done are each written by one side alone, so that no lock is taken for a record that is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from pylogbroker.client.producer.model import RecordMetadata

#: How many bytes may be on their way.
MOST_BYTES = 32 << 20

Send = Callable[[], Deferred[RecordMetadata]]


@attrs.frozen
class Submitted:
    """A record: how it is sent, how large it is, and who wants to know what became of it."""

    send: Send
    size: int
    future: Future[RecordMetadata] = attrs.field(factory=Future)


class Submissions:
    """The way to the reactor's thread. `call` has something called there."""

    def __init__(self, call: Callable[[Callable[[], None]], object]) -> None:
        self._call = call
        self._waiting: list[Submitted] = []
        self._changed = threading.Condition()
        self._blocked = 0
        self._taken = 0  # bytes, by those who submit, under the lock
        self._done = 0  # bytes, by the reactor's thread

    def submit(self, send: Send, size: int, seconds: float | None) -> Future[RecordMetadata] | None:
        """The future of a record, or None if there was no room for it in so many seconds."""
        submitted = Submitted(send, size)
        with self._changed:
            if not self._has_room(size) and not self._wait(size, seconds):
                return None
            if not self._waiting:  # first of all: Ctrl-C may come between any two of these
                self._call(self.send)
            self._waiting.append(submitted)
            self._taken += size
        return submitted.future

    def send(self) -> None:
        """Send what is waiting; on the reactor's thread."""
        with self._changed:
            waiting, self._waiting = self._waiting, []
        for submitted in waiting:
            if submitted.future.set_running_or_notify_cancel():
                submitted.send().addBoth(self._is_done, submitted)
            else:
                self._give_back(submitted.size)

    def _is_done(self, outcome: RecordMetadata | Failure, submitted: Submitted) -> None:
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

    def _has_room(self, size: int) -> bool:
        used = self._taken - self._done
        return not used or used + size <= MOST_BYTES

    def _wait(self, size: int, seconds: float | None) -> bool:
        self._blocked += 1
        try:
            return self._changed.wait_for(lambda: self._has_room(size), seconds)
        finally:
            self._blocked -= 1
