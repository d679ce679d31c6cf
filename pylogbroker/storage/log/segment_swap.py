"""Segment swap: replaces segments by compacted ones; a crash leaves the old or the new ones.

```
 step                                                                       where                after a crash
 1  the cleaner writes <base>.kafka.cleaned and its indexes, and syncs them  cleaner process      old segments
 2  `commit` writes and syncs the commit record, `cleaned-segments`          worker               old segments
    -- from here on the swap is carried out, now or by the next start --
 3  `Log.swap` renames the old segments' files to ....deleted, removes       reactor's thread     new segments
    `.cleaned` from the new ones' names, and uses the new segments
 4  `complete` syncs the directory, removes `cleaned-segments`, and syncs    worker               new segments
    again: only now may new files be called `.cleaned`
 5  the ....deleted files are unlinked                                       worker               new segments
```

Each step can be repeated. Only a producer snapshot at the new segment's base offset is kept. A truncation of the log
aborts a swap before step 3.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from typing import Final

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile, read_swap, write_swap
from pylogbroker.storage.files import DeletedFiles, FileHandle, ResourcePool, opened, remove, sync_file
from pylogbroker.storage.log.header_scan import headers, scan_offset_addressed
from pylogbroker.storage.log.offset_index import OffsetIndex
from pylogbroker.storage.log.segment import Segment

Segments = tuple[Segment, ...]
_OpenSegment = Callable[[int, dict[str, int]], Segment]
"""Opens a segment by its base offset, and its files' sizes by suffix."""

_RENAMED: Final = (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX, names.RECORDS)
"""Renamed in this order."""


class SwapAborted(Exception):
    """The log was truncated: nothing is left to swap."""


@attrs.frozen
class Replacement:
    """New files, `<base_offset>.kafka.cleaned` and its indexes, for segments with the base offsets `replaced`."""

    replaced: tuple[int, ...]
    base_offset: int
    size: int


@attrs.define(eq=False, repr=False)
class SegmentSwap:
    """One log's swap. Any thread may `abort` before step 3."""

    path: str
    replacements: tuple[tuple[Replacement, int], ...]  # each with its end offset
    is_complete: bool  # false if segments stay because others of their replacement were dropped
    is_aborted: bool = attrs.field(default=False, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    @classmethod
    def of(cls, path: str, segments: Segments, replacements: Iterable[Replacement]) -> SegmentSwap:
        """Return a swap without replacements of dropped segments, and of the active one."""
        ends = {one.base_offset: other.base_offset for one, other in pairwise(segments)}
        whole = {replacement: ends.keys() >= {*replacement.replaced} for replacement in replacements}
        kept = [replacement for replacement in whole if whole[replacement]]
        is_complete = ends.keys().isdisjoint(
            base for replacement in whole if not whole[replacement] for base in replacement.replaced
        )
        return cls(path, tuple((replacement, ends[replacement.replaced[-1]]) for replacement in kept), is_complete)

    def commit(self) -> None:
        """Do step 2. Blocks. Raise SwapAborted, OSError, or CorruptRecords for incomplete segments."""
        for replacement, end in self.replacements:
            _check(self.path, replacement, end)
            self._create_missing(replacement.base_offset)
        with self._lock:
            if self.is_aborted:
                raise SwapAborted
            write_swap(self._record, [(swapped.base_offset, swapped.replaced) for swapped, _ in self.replacements])

    def _create_missing(self, base_offset: int) -> None:
        for suffix in _RENAMED:
            flags = os.O_WRONLY if suffix == names.RECORDS else os.O_WRONLY | os.O_CREAT
            with opened(names.file_of(self.path, base_offset, suffix + names.CLEANED), flags):
                pass

    def carry_out(self, segments: Segments, replacing: _OpenSegment) -> tuple[Segments, list[DeletedFiles]]:
        """Do step 3; return the segments after it. Raises OSError."""
        by_base = {segment.base_offset: segment for segment in segments}
        deleted = list[DeletedFiles]()
        for replacement, _ in self.replacements:
            base = replacement.base_offset
            replaced = [by_base.pop(old_base) for old_base in replacement.replaced]
            deleted += [segment.delete(segment.base_offset == base) for segment in replaced]
            by_base[base] = replacing(base, _rename_cleaned_files(self.path, base))
        return tuple(by_base[base] for base in sorted(by_base)), deleted

    def abort_unless_committed(self) -> None:
        """Prevent a later commit: another log may have the directory's name then."""
        with self._lock:
            self.is_aborted = True

    def abort(self) -> None:
        with self._lock:
            self.is_aborted = True
            remove(self._record)

    def abort_and_remove(self) -> None:
        """Abort, and remove the compacted segments. Blocks; may raise OSError."""
        self.abort()
        sync_file(self.path)  # a commit record on the disk needs the files
        remove_cleaned(self.path)

    def complete(self) -> None:
        """Do step 4. Blocks; may raise OSError."""
        _complete(self.path)

    @property
    def _record(self) -> str:
        return f"{self.path}/{names.SWAP_COMMIT}"


def _check(path: str, replacement: Replacement, end: int) -> None:
    """Raise CorruptRecords for incomplete or not adjacent files: recovery would truncate there."""
    name = names.file_of(path, replacement.base_offset, names.RECORDS + names.CLEANED)
    size, actual_end = os.stat(name).st_size, _end(path, replacement.base_offset, names.CLEANED)
    if actual_end != end or size != replacement.size:
        raise CorruptRecords(f"{name}: {size} bytes up to offset {actual_end}, expected {replacement.size} up to {end}")


def _end(path: str, base: int, suffix: str) -> int:
    index_name = names.file_of(path, base, names.OFFSET_INDEX + suffix)
    index = OffsetIndex(index_name, base, _size(index_name), ResourcePool(0))
    file = FileHandle.open(names.file_of(path, base, names.RECORDS + suffix))
    batches = headers(scan_offset_addressed(file.read, index.last()[1], os.fstat(file.fd).st_size))
    return max((header.last_offset + 1 for header in batches), default=base)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _rename_cleaned_files(path: str, base_offset: int) -> dict[str, int]:
    """Rename the records last; return sizes by suffix."""
    sizes = {}
    for suffix in _RENAMED:
        name = names.file_of(path, base_offset, suffix)
        with suppress(FileNotFoundError):
            os.rename(name + names.CLEANED, name)
        with suppress(FileNotFoundError):
            sizes[suffix] = os.stat(name).st_size
    if not sizes.get(names.TRANSACTION_INDEX):  # it only replaced an old one
        remove(names.file_of(path, base_offset, names.TRANSACTION_INDEX))
    return sizes


def finish_swap(path: str) -> bool:
    """Finish a committed swap that a crash interrupted; return whether there was one.

    Blocks. Raise OSError, or DamagedFile for a damaged commit record.
    """
    swap = read_swap(f"{path}/{names.SWAP_COMMIT}")
    if swap is None:
        return False
    for base, replaced in swap:
        _rename_cleaned_files(path, base)
        if not _reaches(path, base, max(replaced)):
            raise DamagedFile(f"{path}: the compacted segment {base} does not have the offsets that it replaces")
        for other in {*replaced} - {base}:
            for suffix in names.SEGMENT_FILES:
                remove(names.file_of(path, other, suffix))
    _complete(path)
    return True


def _reaches(path: str, base: int, offset: int) -> bool:
    try:
        return _end(path, base, "") > offset
    except CorruptRecords:
        return False


def _complete(path: str) -> None:
    sync_file(path)
    remove(f"{path}/{names.SWAP_COMMIT}")
    sync_file(path)


def remove_cleaned(path: str) -> None:
    """Remove files of a failed cleaning. Blocks; may raise OSError."""
    with suppress(FileNotFoundError):
        for name in os.listdir(path):
            if name.endswith(names.CLEANED):
                remove(f"{path}/{name}")
