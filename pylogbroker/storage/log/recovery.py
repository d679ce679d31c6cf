"""Recovery: what a log does at start when it was not closed.

From the segment of the recovery point on, every entry is checked: its size must lie within the file, its CRC must fit,
its offset must be larger than the one before.  The log is cut at the first that is not sound (a write that a crash
cut short, a block of zeros or of noise), and behind a segment that does not end where the next one begins (a crash of
the machine may take the data of one file and leave that of a later one); segments behind the cut are set aside.
Indexes are built anew on the way.

No checksum covers an entry's offset.  Gaps are no fault, as compaction leaves some; but an offset is wrong that is
larger than the next one, if that one goes on from where the entry would end without the gap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import LogEntry
from pylogbroker.storage.files import read_at
from pylogbroker.storage.log.segment import MAX_RELATIVE, Segment

_BLOCK: Final = 1 << 20


@attrs.frozen
class Cut:
    """Where a segment's file was cut, and why."""

    path: str
    position: int
    removed: int  # bytes
    reason: str

    def __str__(self) -> str:
        if not self.removed:
            return f"cut behind {os.path.basename(self.path)} ({self.reason})"
        return f"cut {self.removed} bytes off {os.path.basename(self.path)} at {self.position} ({self.reason})"


def recover_segment(
    segment: Segment, visit: Callable[[Segment, LogEntry], None], successor_base: int = -1
) -> tuple[int, Cut | None]:
    """Check all entries of a segment, cut it if need be; says its next offset and what was cut.  Blocks.

    `successor_base` is the next segment's base offset; -1 if there is none.
    """
    size, reason = segment.size, ""
    segment.begin_rebuild()
    segment.transaction_index.clear()
    next_offset = segment.base_offset
    try:
        for entry, follower in _with_followers(whole_entries(segment, size)):
            _check(entry, segment.base_offset, next_offset)
            _check_place(entry, next_offset, follower, successor_base)
            segment.note(entry.last_offset, entry.max_timestamp, entry.size)
            visit(segment, entry)
            next_offset = entry.next_offset
    except CorruptRecords as error:
        reason = error.detail
    segment.try_store_indexes()
    if segment.size == size:
        return next_offset, None
    os.ftruncate(segment.handle.fd, segment.size)
    return next_offset, Cut(segment.path, segment.size, size - segment.size, reason)


def gap_behind(segment: Segment, next_offset: int, successor: Segment) -> Cut | None:
    """The cut that is due if a segment, which ends at `next_offset`, lacks entries that its successor goes on from."""
    if successor.base_offset == next_offset:
        return None
    reason = f"the next segment begins with offset {successor.base_offset} where {next_offset} belongs"
    return Cut(segment.path, segment.size, 0, reason)


def _check(entry: LogEntry, base_offset: int, next_offset: int) -> None:
    if not next_offset <= entry.base_offset <= entry.last_offset <= base_offset + MAX_RELATIVE:
        raise CorruptRecords(f"offset {entry.base_offset} where {next_offset} or one not far behind belongs")
    entry.check()


def _check_place(entry: LogEntry, next_offset: int, follower: LogEntry | None, successor_base: int) -> None:
    """An entry's offset is not in its CRC.  If it is too large, what follows begins where it would end were it not."""
    begin = successor_base if follower is None else follower.base_offset
    if 0 <= begin < entry.next_offset and _is_misplaced(entry, next_offset, follower, begin):
        raise CorruptRecords(f"offset {entry.base_offset} where {next_offset} belongs, as what follows tells")


def _is_misplaced(entry: LogEntry, next_offset: int, follower: LogEntry | None, begin: int) -> bool:
    try:
        if follower is not None:
            follower.check()
            begin = follower.next_offset - _offsets_in(follower)
        return begin == next_offset + _offsets_in(entry)
    except CorruptRecords:  # what follows is damaged itself, and proves nothing
        return False


def _offsets_in(entry: LogEntry) -> int:
    """How many offsets an entry takes."""
    if entry.count < 0:
        return sum(1 for _ in entry.records())
    return entry.last_offset - entry.base_offset + 1


def _with_followers(found: Iterator[LogEntry]) -> Iterator[tuple[LogEntry, LogEntry | None]]:
    """Each entry, and the one behind it; what ends the iteration with an error ends this one as late."""
    entry = next(found, None)
    while entry is not None:
        follower, damage = None, None
        try:
            follower = next(found, None)
        except CorruptRecords as error:
            damage = error
        yield entry, follower
        if damage is not None:
            raise damage
        entry = follower


def whole_entries(segment: Segment, size: int) -> Iterator[LogEntry]:
    """The entries in the first `size` bytes of a segment; CorruptRecords at what cannot be one."""
    addressing, fd = segment.addressing, segment.handle.fd
    position, wanted = 0, _BLOCK
    while position < size:
        block = read_at(fd, min(wanted, size - position), position)
        begin = position
        for entry in addressing.entries(block, segment.base_offset + position):
            yield entry
            position += entry.size
        wanted = _BLOCK
        if position == begin:
            wanted = _claimed(addressing.claimed(block), block, size - position)


def _claimed(claimed: int, block: bytes, left: int) -> int:
    """Bytes of the entry that begins a block and does not fit in."""
    if claimed > left or claimed <= len(block):
        raise CorruptRecords(f"an entry of {claimed} bytes where {left} bytes are left")
    return claimed
