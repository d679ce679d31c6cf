"""Aborted transactions of a log, for readers of committed records.

The segments' indexes have them. Most logs have none; readers find that out without a look at each segment.
"""

from __future__ import annotations

from bisect import bisect_left

import attrs

from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile, read_aborted, write_aborted
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.log.transaction_index import AbortedTxn

Segments = tuple[Segment, ...]


@attrs.define
class LogTransactionIndex:
    """`save` is for workers, the rest for the reactor's thread."""

    path: str
    _known: Segments = ()  # `_with_some` is from these
    _with_some: list[Segment] = attrs.field(factory=list)
    _saved: tuple[Segments, int] = ((), 0)  # as last compared with the checkpoint

    def changed(self) -> None:
        self._known = ()

    def overlapping(self, segments: Segments, first_offset: int, upto: int, may_wait: bool) -> list[AbortedTxn]:
        transactions: list[AbortedTxn] = []
        if segments is not self._known:
            self._with_some = [segment for segment in segments if len(segment.transaction_index)]
            self._known = segments
        begin = bisect_left(self._with_some, first_offset, key=_last_offset) if self._with_some else 0
        for segment in self._with_some[begin:]:
            some, is_all = segment.transaction_index.overlapping(first_offset, upto, may_wait)
            transactions += some
            if is_all:
                break
        return transactions

    def save(self, segments: Segments) -> bool:
        """Save numbers and checksums of entries, if changed; return whether they were.

        They show the next start whether an index is missing. The active segment must be sealed before the next append.
        Blocks.
        """
        saved, count = self._saved
        newest = len(segments[-1].transaction_index)
        if segments is saved and newest == count:
            return False
        indexes = [(segment.base_offset, segment.transaction_index) for segment in segments]
        checksums = {base: (len(index), index.checksum) for base, index in indexes if len(index)}
        name = f"{self.path}/{names.ABORTED_TRANSACTIONS}"
        try:
            is_due = (read_aborted(name) or {}) != checksums
        except DamagedFile:
            is_due = True
        if is_due:
            write_aborted(name, checksums)
        self._saved = segments, newest
        return is_due


def _last_offset(segment: Segment) -> int:
    return segment.transaction_index.last_offset
