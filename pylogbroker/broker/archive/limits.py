"""Bytes per second of copies to the remote storage and of reads there (KIP-956).

A rate covers several windows, as those of Kafka's quotas do: who was idle may first use the quota of all windows.
Copies wait in their worker threads, before each part; reads wait before they get a thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from pylogbroker.broker.archive.store_calls import ArchiveStopped
from pylogbroker.security.quotas.rates import SampledRate, Windows
from pylogbroker.storage.remote.copying import CopyAborted

_WAIT_MS_MAX: Final = 1000  # then the quota, which may have changed, is looked at again
_THROTTLES_MS: Final = 60_000
_THROTTLES_MAX: Final = 10_000


@attrs.define(eq=False, repr=False)
class ByteRate:
    """Rate of bytes with a limit. Several threads use it."""

    _limit: Callable[[], int]
    _windows: Windows
    _now_ms: Callable[[], int]
    _rate: SampledRate = attrs.field(init=False)
    _throttles: deque[tuple[int, int]] = attrs.field(init=False)  # when, and for how long
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._rate = SampledRate(self._windows)
        self._throttles = deque(maxlen=_THROTTLES_MAX)

    def record(self, size: int) -> None:
        with self._lock:
            self._rate.record(size, self._now_ms())

    def take(self, size: int) -> int:
        """Record bytes and return 0, unless the rate is above its limit: then return how long to wait, in ms."""
        with self._lock:
            now_ms = self._now_ms()
            wait_ms = self._rate.throttle_ms(self._limit(), now_ms)
            if not wait_ms:
                self._rate.record(size, now_ms)
        if wait_ms:
            self.note_throttle(wait_ms)
        return wait_ms

    def throttle_ms(self, expected: int) -> int:
        """Return how long to wait until the rate is at its limit, if so many bytes are expected; 0 if it is not above.

        Expected bytes are those of reads under way. Their end may end the wait earlier.
        """
        with self._lock:
            now_ms, limit = self._now_ms(), self._limit()
            wait_ms = self._rate.throttle_ms(limit, now_ms)
            seconds = self._windows.whole_seconds or self._windows.seconds
            if not wait_ms and expected and self._rate.per_second(now_ms) + expected / seconds > limit:
                return _WAIT_MS_MAX
        return wait_ms

    def note_throttle(self, wait_ms: int) -> None:
        self._throttles.append((self._now_ms(), wait_ms))

    def throttle_times(self) -> list[int]:
        """Return the throttle times of the last minute, in ms."""
        since_ms = self._now_ms() - _THROTTLES_MS
        return [wait_ms for at_ms, wait_ms in tuple(self._throttles) if at_ms > since_ms]


@attrs.define(eq=False, repr=False)
class CopyLimits:
    """Rate and end of all copies."""

    rate: ByteRate
    _stopped: threading.Event = attrs.field(factory=threading.Event, init=False)

    def stop(self) -> None:
        self._stopped.set()

    def pace(self, is_wanted: Callable[[], bool]) -> Callable[[int], None]:
        """Return a function that waits until so many bytes may be copied. It raises CopyAborted."""

        def wait(size: int) -> None:
            while True:
                if self._stopped.is_set() or not is_wanted():
                    raise CopyAborted
                wait_ms = self.rate.take(size) if size else 0
                if not wait_ms:
                    return
                self._stopped.wait(min(wait_ms, _WAIT_MS_MAX) / 1000)

        return wait


@attrs.define(eq=False, repr=False)
class ReadLimits:
    """Rate of all reads for consumers. Reads begin in the order of their requests, on the reactor thread."""

    rate: ByteRate
    _clock: IReactorTime
    _expected: int = attrs.field(default=0, init=False)  # by reads under way
    _waiting: deque[tuple[Deferred[None], int]] = attrs.field(factory=deque, init=False)
    _timers: list[IDelayedCall] = attrs.field(factory=list, init=False)  # at most one
    _is_stopped: bool = attrs.field(default=False, init=False)

    @property
    def count(self) -> int:
        """Number of reads that wait."""
        return len(self._waiting)

    def begin(self, size: int) -> Deferred[None]:
        """Return a Deferred that fires when a read of up to so many bytes may begin; `end` must follow.

        It fails with ArchiveStopped if the broker stops.
        """
        if self._is_stopped:
            return fail(ArchiveStopped())
        begun: Deferred[None] = Deferred()
        self._waiting.append((begun, size))
        if len(self._waiting) == 1:
            self._go_on()
        return begun

    def end(self, size: int) -> None:
        """Note the end of a read. What was read is recorded by then."""
        self._expected -= size
        self._go_on()

    def stop(self) -> None:
        self._is_stopped = True
        self._cancel()
        while self._waiting:
            begun, _ = self._waiting.popleft()
            begun.errback(ArchiveStopped())

    def _go_on(self) -> None:
        self._cancel()
        while self._waiting:
            wait_ms = self.rate.throttle_ms(self._expected)
            if wait_ms:
                self.rate.note_throttle(wait_ms)
                self._timers = [self._clock.callLater(min(wait_ms, _WAIT_MS_MAX) / 1000, self._wake)]
                return
            begun, size = self._waiting.popleft()
            self._expected += size
            begun.callback(None)

    def _wake(self) -> None:
        self._timers = []
        self._go_on()

    def _cancel(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = []
