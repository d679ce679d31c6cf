"""Recovery of a log that was not closed.

The size, CRC and order of every batch are checked from the recovery point's segment on. The log is cut at the first
invalid batch. It is also cut after a segment that does not end where the next one begins: a crash of the machine may
lose only an earlier file's data. Segments after the cut are quarantined.

No checksum covers a batch's offset, and compaction makes gaps. But an offset is wrong if it is larger than the next
batch's, and that one begins where the batch would end without the gap.

```
<log directory>/<topic>_<partition>/                    up to the cut
<log directory>/<topic>_<partition>.<random>-stray/     quarantined segments with all their files
```

After a crash in between, the next start quarantines the segments that do not continue the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import LogEntry
from pylogbroker.storage import names
from pylogbroker.storage.files import sync_file
from pylogbroker.storage.log.segment import RELATIVE_OFFSET_MAX, Segment


@attrs.frozen
class Cut:
    path: str
    position: int
    removed: int  # bytes
    reason: str

    def __str__(self) -> str:
        if not self.removed:
            return f"cut after {os.path.basename(self.path)} ({self.reason})"
        return f"cut {self.removed} bytes off {os.path.basename(self.path)} at {self.position} ({self.reason})"


def recover_segment(
    segment: Segment, visit: Callable[[Segment, LogEntry], None], successor_base: int = -1
) -> tuple[int, Cut | None]:
    """Check a segment's batches; truncate at an invalid one; return the end offset and the cut. Blocks.

    `successor_base` is the next segment's base offset, or -1.
    """
    size, reason = segment.size, ""
    segment.begin_rebuild()
    segment.transaction_index.clear()
    next_offset = segment.base_offset
    try:
        for entry, follower in _with_followers(segment.file.entries(size)):
            _check(entry, segment.base_offset, next_offset)
            _check_gap(entry, next_offset, follower, successor_base)
            segment.note(entry.last_offset, entry.max_timestamp, entry.size)
            visit(segment, entry)
            next_offset = entry.next_offset
    except CorruptRecords as error:
        reason = error.detail
    segment.try_store_indexes()
    if segment.size == size:
        return next_offset, None
    os.ftruncate(segment.file.handle.fd, segment.size)
    return next_offset, Cut(segment.path, segment.size, size - segment.size, reason)


def gap_behind(segment: Segment, next_offset: int, successor: Segment) -> Cut | None:
    """Return the cut if a segment's successor does not begin at its end, `next_offset`."""
    if successor.base_offset == next_offset:
        return None
    reason = f"the next segment begins with offset {successor.base_offset} where {next_offset} belongs"
    return Cut(segment.path, segment.size, 0, reason)


def quarantine(path: str, segments: Sequence[Segment]) -> str:
    """Move segments into a new directory; return its path. Blocks; may raise OSError."""
    home, name = os.path.split(path)
    stray = f"{home}/{names.stray_directory(name)}"
    os.mkdir(stray)
    for segment in segments:
        segment.close()
        base = segment.base_offset
        for suffix in names.SEGMENT_FILES:
            with suppress(FileNotFoundError):
                os.rename(names.file_of(path, base, suffix), names.file_of(stray, base, suffix))
    for changed in (stray, path, home):
        sync_file(changed)
    return stray


def _check(entry: LogEntry, base_offset: int, next_offset: int) -> None:
    if not next_offset <= entry.base_offset <= entry.last_offset <= base_offset + RELATIVE_OFFSET_MAX:
        raise CorruptRecords(f"offset {entry.base_offset} where {next_offset} or one not far behind belongs")
    entry.check()


def _check_gap(entry: LogEntry, next_offset: int, follower: LogEntry | None, successor_base: int) -> None:
    begin = successor_base if follower is None else follower.base_offset
    if 0 <= begin < entry.next_offset and _is_misplaced(entry, next_offset, follower, begin):
        raise CorruptRecords(f"offset {entry.base_offset} where {next_offset} belongs, by the next batch's offset")


def _is_misplaced(entry: LogEntry, next_offset: int, follower: LogEntry | None, begin: int) -> bool:
    """Return whether the next batch begins where `entry` would end at the offset `next_offset`."""
    try:
        if follower is not None:
            follower.check()
            begin = follower.next_offset - _offset_count(follower)
        return begin == next_offset + _offset_count(entry)
    except CorruptRecords:  # a damaged batch proves nothing
        return False


def _offset_count(entry: LogEntry) -> int:
    if entry.count < 0:
        return sum(1 for _ in entry.records())
    return entry.last_offset - entry.base_offset + 1


def _with_followers(batches: Iterator[LogEntry]) -> Iterator[tuple[LogEntry, LogEntry | None]]:
    """Yield each batch with its successor; raise an error of `batches` after the last batch before it."""
    entry = next(batches, None)
    while entry is not None:
        follower, damage = None, None
        try:
            follower = next(batches, None)
        except CorruptRecords as error:
            damage = error
        yield entry, follower
        if damage is not None:
            raise damage
        entry = follower
