"""Which transactions of a log were aborted, as a reader of committed records must know them.

The markers lie in the segments, and what they ended stands in the segments' transaction indexes.  Most logs have none:
that is known without looking at each segment for each reader.
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
    """Those of the log in the directory `path`.  `save` is for workers, the rest for the reactor's thread."""

    path: str
    _known: Segments = ()  # the segments that `_with_some` was made of
    _with_some: list[Segment] = attrs.field(factory=list)
    _saved: tuple[Segments, int] = ((), 0)  # what the checkpoint was last compared with, entries of the last index

    def changed(self) -> None:
        """An index got an entry."""
        self._known = ()

    def overlapping(self, segments: Segments, first_offset: int, upto: int, may_wait: bool) -> list[AbortedTxn]:
        """Those that reach into `first_offset` to `upto`, by their last offsets."""
        found: list[AbortedTxn] = []
        if segments is not self._known:
            self._with_some = [segment for segment in segments if len(segment.transaction_index)]
            self._known = segments
        begin = bisect_left(self._with_some, first_offset, key=_last_offset) if self._with_some else 0
        for segment in self._with_some[begin:]:
            some, is_all = segment.transaction_index.overlapping(first_offset, upto, may_wait)
            found += some
            if is_all:
                break
        return found

    def save(self, segments: Segments) -> bool:
        """Write down what the segments' indexes hold, unless it stands there; says whether it did.

        That goes into a checkpoint, so that the next start notices an index that is gone.  The active segment's counts
        too: nothing may be appended to it any more before it is sealed.  Blocks on the disk.
        """
        known, count = self._saved
        newest = len(segments[-1].transaction_index)
        if segments is known and newest == count:
            return False
        indexes = [(segment.base_offset, segment.transaction_index) for segment in segments]
        wanted = {base: (len(index), index.checksum) for base, index in indexes if len(index)}
        name = f"{self.path}/{names.ABORTED_TRANSACTIONS}"
        try:
            is_due = (read_aborted(name) or {}) != wanted
        except DamagedFile:
            is_due = True
        if is_due:
            write_aborted(name, wanted)
        self._saved = segments, newest
        return is_due


def _last_offset(segment: Segment) -> int:
    return segment.transaction_index.last_offset
