"""Leader epochs of a log: the offset at which each epoch began.

Followers, and clients whose leader changed, ask where an epoch ended: up to there both logs agree. Epochs and start
offsets increase strictly.

The reactor's thread changes them in memory; the worker that syncs the log calls `save`. After a crash the batches have
the missing epochs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import write_epochs

UNDEFINED: Final = -1
_epoch, _start = itemgetter(0), itemgetter(1)


class LeaderEpochs:
    __slots__ = ("_entries", "directory", "dirty", "latest")

    def __init__(self, directory: str, entries: list[tuple[int, int]]) -> None:
        self.directory = directory
        self._entries = entries
        self.dirty = False
        self.latest = entries[-1][0] if entries else UNDEFINED

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start: int) -> None:
        """Begin `epoch` at `start`; drop contradicting pairs."""
        if epoch < 0 or epoch == self.latest:
            return
        entries = self._entries
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start):
            entries.pop()
        entries.append((epoch, start))
        self._changed()

    def observe(self, epoch: int, start: int) -> None:
        if epoch > self.latest:
            self.assign(epoch, start)

    def replace(self, entries: Sequence[tuple[int, int]]) -> None:
        self._entries = list(entries)
        self._changed()

    def prepend(self, earlier: Sequence[tuple[int, int]]) -> None:
        """Add the epochs before the first one, which may go on with the last of them."""
        self._entries = list(joined(earlier, self._entries))
        self._changed()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest known epoch up to `epoch`, and its end offset; (-1, -1) if unknown."""
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
        """Return -1 if unknown."""
        slot = bisect_right(self._entries, offset, key=_start) - 1
        return self._entries[slot][0] if slot >= 0 else UNDEFINED

    def truncate_end(self, offset: int) -> None:
        keep = bisect_left(self._entries, offset, key=_start)
        if keep < len(self._entries):
            del self._entries[keep:]
            self._changed()

    def truncate_start(self, offset: int) -> None:
        """Drop the epochs before `offset`; its own epoch begins there."""
        slot = bisect_right(self._entries, offset, key=_start) - 1
        if slot >= 0 and (slot or self._entries[0][1] < offset):
            self._entries[: slot + 1] = [(self._entries[slot][0], offset)]
            self._changed()

    def save(self) -> bool:
        """Write the checkpoint if it changed; return whether it did. Blocks."""
        if not self.dirty:
            return False
        self.dirty = False  # later changes are saved by the next call
        try:
            write_epochs(f"{self.directory}/{names.LEADER_EPOCHS}", self.entries)
        except OSError:
            self.dirty = True
            raise
        return True

    def _changed(self) -> None:
        self.latest = self._entries[-1][0] if self._entries else UNDEFINED
        self.dirty = True


def joined(earlier: Sequence[tuple[int, int]], later: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return epochs and those after them, of which the first may go on with the last of the others."""
    goes_on = bool(earlier and later and earlier[-1][0] == later[0][0])
    return (*earlier, *later[goes_on:])
