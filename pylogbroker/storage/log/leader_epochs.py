"""The leader epochs of a log: which epoch began at which offset.

A follower, or a client whose leader changed, asks with `end_offset_for` where an epoch that it knows ended here, and so
finds the offset up to which both agree.  Epochs and start offsets both increase strictly from entry to entry.

Changes are made in memory on the reactor's thread; `save` writes the checkpoint, from the worker that syncs the log.
What a crash takes is found again in the batches after the recovery point, which carry their epoch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import Final

from pylogbroker.storage.checkpoints import write_epochs

UNDEFINED: Final = -1
_epoch, _start = itemgetter(0), itemgetter(1)


class LeaderEpochs:
    """The (epoch, start offset) pairs of one log, in memory and in its checkpoint file."""

    __slots__ = ("_entries", "dirty", "latest", "path")

    def __init__(self, path: str, entries: list[tuple[int, int]]) -> None:
        self.path = path
        self._entries = entries
        self.dirty = False
        self.latest = entries[-1][0] if entries else UNDEFINED

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start: int) -> None:
        """Epoch `epoch` begins at `start`; what contradicts it goes."""
        if epoch < 0 or epoch == self.latest:
            return
        entries = self._entries
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start):
            entries.pop()
        entries.append((epoch, start))
        self._changed()

    def observe(self, epoch: int, start: int) -> None:
        """An entry at `start` carries `epoch`: where that is news, the epoch began there."""
        if epoch > self.latest:
            self.assign(epoch, start)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch that is not above `epoch`, and where it ended; (-1, -1) if that cannot be said."""
        if epoch == UNDEFINED:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = bisect_right(self._entries, epoch, key=_epoch)
        if higher == len(self._entries):
            return UNDEFINED, UNDEFINED
        floor = self._entries[higher - 1][0] if higher else epoch
        return floor, self._entries[higher][1]

    def epoch_at(self, offset: int) -> int:
        """The epoch that `offset` was, or is to be, written in; -1 if unknown."""
        slot = bisect_right(self._entries, offset, key=_start) - 1
        return self._entries[slot][0] if slot >= 0 else UNDEFINED

    def truncate_end(self, offset: int) -> None:
        """The log now ends at `offset`."""
        keep = bisect_left(self._entries, offset, key=_start)
        if keep < len(self._entries):
            del self._entries[keep:]
            self._changed()

    def truncate_start(self, offset: int) -> None:
        """The log now begins at `offset`: the epoch that it lies in begins there."""
        slot = bisect_right(self._entries, offset, key=_start) - 1
        if slot >= 0 and (slot or self._entries[0][1] < offset):
            self._entries[: slot + 1] = [(self._entries[slot][0], offset)]
            self._changed()

    def save(self) -> bool:
        """Write the checkpoint file if it is out of date; says whether it was.  Blocks on the disk."""
        if not self.dirty:
            return False
        self.dirty = False  # what changes from here on is for the next time
        try:
            write_epochs(self.path, self.entries)
        except OSError:
            self.dirty = True
            raise
        return True

    def _changed(self) -> None:
        self.latest = self._entries[-1][0] if self._entries else UNDEFINED
        self.dirty = True
