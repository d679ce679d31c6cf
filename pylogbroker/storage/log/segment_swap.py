"""The exchange of segments for compacted ones, so that a crash at any moment leaves the old or the new ones.

```
 what                                                                       where                a crash leaves
 1  the cleaner writes <base>.kafka.cleaned and its indexes, and syncs them  process of its own   the old segments
 2  `cleaned-segments` is written, and synced: it says what replaces what    worker               the old segments
    -- from here on the exchange is carried through, now or at the next start --
 3  the old segments' files are renamed to ....deleted, the new ones' lose   reactor's thread     the new segments
    `.cleaned`; the log goes on with the new ones
 4  the directory is synced, `cleaned-segments` removed, the directory       worker               the new segments
    synced again: only now may files called `.cleaned` be written again
 5  ....deleted are unlinked, later                                          worker               the new segments
```

Each step may be repeated: a file that has its new name already is left alone.  A segment that is replaced by one of the
same base offset keeps its snapshot of producers, the others' snapshots go.

A log that is cut, for whatever reason, while an exchange is under way calls it off.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Final

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile, read_swap, write_swap
from pylogbroker.storage.compaction.jobs import Replacement
from pylogbroker.storage.files import FileHandle, ResourcePool, opened, remove, sync_file
from pylogbroker.storage.log.header_scan import headers, scan_offset_addressed
from pylogbroker.storage.log.offset_index import OffsetIndex

RENEWED: Final = (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX, names.RECORDS)
"""The files of a compacted segment, in the order in which they take their places."""


class SwapAborted(Exception):
    """The log was cut meanwhile: there is nothing to exchange any more."""


@attrs.define(eq=False)
class SegmentSwap:
    """One exchange in one log's directory.  `call_off` may come from any thread at any time before the third step."""

    path: str
    replacements: tuple[tuple[Replacement, int], ...]  # each with the offset that the next segment begins with
    is_complete: bool  # nothing is left of what is not replaced because some of it is gone
    is_aborted: bool = attrs.field(default=False, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def commit(self) -> None:
        """The second step: from now on it happens, whatever comes.  Blocks.

        SwapAborted, OSError, or CorruptRecords if the compacted segments are not what they should be.
        """
        for replacement, end in self.replacements:
            _check(self.path, replacement, end)
            self._complete(replacement.base_offset)
        with self._lock:
            if self.is_aborted:
                raise SwapAborted
            write_swap(self._file, [(each.base_offset, each.replaced) for each, _ in self.replacements])

    def _complete(self, base_offset: int) -> None:
        """An index that would say nothing may not have been written: the old one must not stay for that."""
        for suffix in RENEWED:
            flags = os.O_WRONLY if suffix == names.RECORDS else os.O_WRONLY | os.O_CREAT
            with opened(names.file_of(self.path, base_offset, suffix + names.CLEANED), flags):
                pass

    def abort_unless_committed(self) -> None:
        """It is not promised any more: the directory's name may be another log's by now.  A promise stays one."""
        with self._lock:
            self.is_aborted = True

    def abort(self) -> None:
        """It is not to happen."""
        with self._lock:
            self.is_aborted = True
            remove(self._file)

    def abort_and_remove(self) -> None:
        """The same, and nothing is to be left of it.  Blocks.  OSError."""
        self.abort()
        sync_file(self.path)  # while it was promised, what was to come must stay
        remove_cleaned(self.path)

    def close(self) -> None:
        """The fourth step.  Blocks.  OSError."""
        _close(self.path)

    @property
    def _file(self) -> str:
        return f"{self.path}/{names.SWAP_COMMIT}"


def _check(path: str, replacement: Replacement, end: int) -> None:
    """CorruptRecords if what the cleaner wrote is not whole or leaves a gap: the next recovery would cut there."""
    name = names.file_of(path, replacement.base_offset, names.RECORDS + names.CLEANED)
    size, found = os.stat(name).st_size, _end(path, replacement.base_offset, names.CLEANED)
    if found != end or size != replacement.size:
        raise CorruptRecords(f"{name}: {size} bytes up to offset {found} where {replacement.size} up to {end} belong")


def _end(path: str, base: int, suffix: str) -> int:
    """The offset behind the last entry of a segment whose files' names end with `suffix`."""
    index_name = names.file_of(path, base, names.OFFSET_INDEX + suffix)
    index = OffsetIndex(index_name, base, _size(index_name), ResourcePool(0))
    file = FileHandle.open(names.file_of(path, base, names.RECORDS + suffix))
    found = headers(scan_offset_addressed(file.read, index.last()[1], os.fstat(file.fd).st_size))
    return max((header.last_offset + 1 for header in found), default=base)


def _size(path: str) -> int:
    """What is not there holds nothing."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def rename_cleaned_files(path: str, base_offset: int) -> dict[str, int]:
    """Let the files of a compacted segment lose `.cleaned`, as far as they have it, the entries last; their sizes."""
    sizes = {}
    for suffix in RENEWED:
        name = names.file_of(path, base_offset, suffix)
        with suppress(FileNotFoundError):
            os.rename(name + names.CLEANED, name)
        with suppress(FileNotFoundError):
            sizes[suffix] = os.stat(name).st_size
    if not sizes.get(names.TRANSACTION_INDEX):  # it took the place of an old one, which is what it was for
        remove(names.file_of(path, base_offset, names.TRANSACTION_INDEX))
    return sizes


def finish_swap(path: str) -> bool:
    """At the start: finish an exchange that a crash cut short; says whether there was one.

    Blocks.  OSError; DamagedFile if it is not known any more what replaces what.
    """
    swap = read_swap(f"{path}/{names.SWAP_COMMIT}")
    if swap is None:
        return False
    for base, replaced in swap:
        rename_cleaned_files(path, base)
        if not _reaches(path, base, max(replaced)):
            raise DamagedFile(f"{path}: the segment {base} does not stand for all that it was to replace")
        for other in {*replaced} - {base}:
            for suffix in names.SEGMENT_FILES:
                remove(names.file_of(path, other, suffix))
    _close(path)
    return True


def _reaches(path: str, base: int, offset: int) -> bool:
    """Whether a segment has entries up to `offset`, as far as they are sound."""
    try:
        return _end(path, base, "") > offset
    except CorruptRecords:
        return False


def _close(path: str) -> None:
    sync_file(path)
    remove(f"{path}/{names.SWAP_COMMIT}")
    sync_file(path)


def remove_cleaned(path: str) -> None:
    """Remove what a cleaning that came to nothing has left.  Blocks.  OSError."""
    with suppress(FileNotFoundError):
        for name in os.listdir(path):
            if name.endswith(names.CLEANED):
                remove(f"{path}/{name}")
