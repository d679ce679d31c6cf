"""High watermark of a partition: the offset up to which consumers read.

    before a role    it stays at the log directory's checkpoint
    sole replica     `open`: at the log end, then as the condition of `flush.messages` allows
    led, followed    `open_at`: as the replicas allow
    stopped          `stop`: it stays

It never falls, unless the log is cut.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import Final, Protocol

import attrs

from pylogbroker.broker.partitions.purgatory import Mark, Purgatory
from pylogbroker.storage import Log

HIDDEN_APPENDS_MAX: Final = 1000
"""Appends above the high watermark whose sizes count for fetches that wait for some bytes; older ones are forgotten."""

_end, _size = itemgetter(0), itemgetter(1)


class Condition(Protocol):
    @property
    def offset(self) -> int:
        """Offset up to which the condition holds."""


@attrs.define(eq=False, repr=False)
class SyncedOffset:
    """Condition of `flush.messages`: this many unsynced records stay hidden until a sync."""

    _log: Log

    @property
    def offset(self) -> int:
        log = self._log
        end, on_disk = log.log_end_offset, log.recovery_point
        return end if end - on_disk < log.config.flush_messages else on_disk


@attrs.define(eq=False, repr=False)
class HighWatermark:
    """Moves `Log.high_watermark`, alone, to the smallest offset of its conditions, at most the log end."""

    _log: Log
    _purgatory: Purgatory
    conditions: list[Condition] = attrs.field(factory=list, init=False)
    """Empty: it stays."""
    _hidden: list[tuple[int, int]] = attrs.field(factory=list, init=False)
    """End offsets and sizes of the appends above the high watermark. Not a deque: an empty one takes 600 bytes."""
    _waits: bool = attrs.field(default=True, init=False)  # for more than syncs

    def open(self, synced: SyncedOffset) -> None:
        """Begin at the log end: records from before a restart may have been visible."""
        self._log.high_watermark = self._log.log_end_offset
        self.conditions = [synced]
        self._waits = False

    def open_at(self, offset: int, condition: Condition) -> None:
        """Begin at another offset, with one condition instead of those so far.

        It is a later one where a leader goes on in a new leader epoch, with fewer in-sync replicas.
        """
        before, self._log.high_watermark = self._log.high_watermark, offset
        self.cut()
        self.conditions = [condition]
        self._waits = True
        if offset > before:
            self._complete(offset)

    def stop(self) -> None:
        """Stay: what a former leader or follower knows must not move it."""
        self.conditions = []
        self._waits = True

    def appended(self, size: int, must_sync: bool) -> None:
        log = self._log
        end = log.log_end_offset
        if must_sync or self._waits or self._hidden:
            if len(self._hidden) >= HIDDEN_APPENDS_MAX:
                del self._hidden[0]
            self._hidden.append((end, size))
            self.advance()
        else:  # an append without sync meets the only condition
            log.high_watermark = end
            if self._purgatory.delayed:
                self._purgatory.reached(Mark.HIGH_WATERMARK, end, size)

    def cut(self) -> None:
        """Forget appends that the log has lost."""
        while self._hidden and self._hidden[-1][0] > self._log.log_end_offset:
            self._hidden.pop()

    def advance(self) -> None:
        """Rise as far as the conditions allow; complete waiting operations."""
        if not self.conditions:
            return
        log = self._log
        offset = log.log_end_offset
        for condition in self.conditions:
            if (allowed := condition.offset) < offset:
                offset = allowed
        if offset <= log.high_watermark:
            return
        log.high_watermark = offset
        self._complete(offset)

    def _complete(self, offset: int) -> None:
        """Complete operations that have waited for offsets up to this one."""
        seen = bisect_right(self._hidden, offset, key=_end)
        size = sum(map(_size, self._hidden[:seen]))
        del self._hidden[:seen]
        at_least = max(size, 1)  # within what a follower appended at once, or what lay here at the start
        self._purgatory.reached(Mark.HIGH_WATERMARK, offset, at_least)
