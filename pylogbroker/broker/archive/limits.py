"""Bytes per second of copies that run in worker threads, and their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import attrs

from pylogbroker.storage.remote.copying import CopyAborted


@attrs.define(eq=False, repr=False)
class CopyLimits:
    """Shared by all copies. `bytes_per_second` is the setting in force."""

    bytes_per_second: Callable[[], int]
    _seconds: Callable[[], float] = time.monotonic
    _next: float = attrs.field(default=0.0, init=False)
    _stopped: threading.Event = attrs.field(factory=threading.Event, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def stop(self) -> None:
        self._stopped.set()

    def pace(self, is_wanted: Callable[[], bool]) -> Callable[[int], None]:
        """Return a function that waits until so many bytes may be copied. It raises CopyAborted."""

        def wait(size: int) -> None:
            with self._lock:
                now = self._seconds()
                begin = max(self._next, now)
                self._next = begin + size / self.bytes_per_second()
            if begin > now:
                self._stopped.wait(begin - now)
            if self._stopped.is_set() or not is_wanted():
                raise CopyAborted

        return wait
