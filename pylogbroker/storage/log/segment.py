"""A segment: one file of entries (see `entries_file`) with its indexes.

The file holds the entries of the log from `base_offset` on, back to back, exactly as they travel.  Appends go to the
last segment of a log only; all others are sealed and change no more until they are deleted.

The indexes by offset and by time are hints.  Each answer is checked against the entry it points to; at the first that
does not fit, both are built anew from the headers of the entries.  That of aborted transactions is checked when the log
is opened.

Thread rules: everything runs on the reactor's thread, except `sync` and `DeletedFiles.unlink`, which block on the disk
and belong into a worker.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.interfaces import SegmentView
from pylogbroker.storage import names
from pylogbroker.storage.files import TRANSIENT_ERRNOS, Buffer, DeletedFiles, FileHandle, Pools, remove, sync_file
from pylogbroker.storage.log.addressing import OFFSET_ADDRESSED, Addressing
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.header_scan import Header, IndexDamaged, find_boundary, find_offset, headers
from pylogbroker.storage.log.offset_index import ENTRY_SIZE as OFFSET_ENTRY
from pylogbroker.storage.log.offset_index import OffsetIndex
from pylogbroker.storage.log.segment_file import SegmentFile
from pylogbroker.storage.log.time_index import ENTRY_SIZE as TIME_ENTRY
from pylogbroker.storage.log.time_index import TimeIndex
from pylogbroker.storage.log.transaction_index import TransactionIndex

MAX_RELATIVE: Final = 0x7FFFFFFF  # the largest relative offset that an index entry is given
_SPARSE: Final = 64  # index intervals that a lookup may pass before the index counts as incomplete
T = TypeVar("T")


class Written(Protocol):
    """What a segment must know of an entry that it writes."""

    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def size(self) -> int: ...


@attrs.define(eq=False)
class Segment(SegmentFile):
    """One file of entries, its size, and its indexes."""

    offset_index: OffsetIndex
    time_index: TimeIndex
    transaction_index: TransactionIndex
    index_interval: int = 4096
    created_ms: int = 0
    jitter_ms: int = 0
    unindexed: int = 0  # bytes since the last index entry
    _largest: tuple[int, int] | None = None  # largest timestamp, and the offset it came with
    _first_timestamp: int | None = None

    @classmethod
    def existing(
        cls,
        directory: str,
        base_offset: int,
        sizes: dict[str, int],
        pools: Pools,
        created_ms: int = 0,
        addressing: Addressing = OFFSET_ADDRESSED,
    ) -> Segment:
        """A segment whose files are there; `sizes` gives their sizes by suffix."""
        offset_index = OffsetIndex(
            names.file_of(directory, base_offset, names.OFFSET_INDEX),
            base_offset,
            sizes.get(names.OFFSET_INDEX, 0),
            pools.indexes,
        )
        time_index = TimeIndex(
            names.file_of(directory, base_offset, names.TIME_INDEX), base_offset, sizes.get(names.TIME_INDEX, 0)
        )
        transaction_index = TransactionIndex(
            names.file_of(directory, base_offset, names.TRANSACTION_INDEX), sizes.get(names.TRANSACTION_INDEX, 0)
        )
        size = sizes[names.RECORDS]
        return cls(
            directory, base_offset, size, pools, offset_index, time_index, transaction_index, created_ms=created_ms,
            addressing=addressing,
        )  # fmt: skip

    @classmethod
    def create(
        cls,
        directory: str,
        base_offset: int,
        pools: Pools,
        preallocate: int,
        now_ms: int,
        addressing: Addressing = OFFSET_ADDRESSED,
    ) -> Segment:
        """A new, empty segment and its file."""
        segment = cls.existing(directory, base_offset, {names.RECORDS: 0}, pools, now_ms, addressing)
        handle = FileHandle.open(segment.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        segment.admit(handle)
        if preallocate:
            segment.preallocate(preallocate)
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX):
            remove(names.file_of(directory, base_offset, suffix))
        segment._largest, segment._first_timestamp = (-1, base_offset), -1
        return segment

    # Writing

    def append(self, chunks: Sequence[Buffer], size: int, entries: Sequence[Written]) -> None:
        """Write `entries`, whose bytes are `chunks`; OSError, and nothing changed, if they can't be written."""
        self.write(chunks, size)
        if not self.size:
            self._first_timestamp = entries[0].max_timestamp
        for entry in entries:
            self.note(entry.last_offset, entry.max_timestamp, entry.size)

    def note(self, last_offset: int, max_timestamp: int, size: int) -> None:
        """The next entry in the file is known: index it if it is time."""
        largest = self._largest or self.largest()
        if max_timestamp > largest[0]:
            self._largest = largest = max_timestamp, last_offset
        if self.unindexed > self.index_interval:
            self.unindexed = 0
            with contextlib.suppress(OSError):  # an index that can't be written now is written later
                self.offset_index.append(last_offset, self.size)
                self.time_index.append(*largest)
        self.unindexed += size
        self.size += size

    def must_roll(self, size: int, last_offset: int, timestamp: int, now_ms: int, config: LogConfig) -> bool:
        """Whether an append of `size` bytes up to `last_offset` and `timestamp` does not belong here any more."""
        if last_offset - self.base_offset > MAX_RELATIVE:
            return True
        return self.size > 0 and (
            size > config.segment_bytes - self.size
            or len(self.offset_index) >= config.segment_index_bytes // OFFSET_ENTRY
            or len(self.time_index) >= config.segment_index_bytes // TIME_ENTRY - 1
            or self._is_old(timestamp, now_ms, config.longest_segment_ms - self.jitter_ms)
        )

    def _is_old(self, timestamp: int, now_ms: int, segment_ms: int) -> bool:
        """Whether, by the records' time or else the clock's, the segment is open for longer than `segment_ms`."""
        first = self.first_timestamp()
        return (timestamp - first if first >= 0 else now_ms - self.created_ms) > segment_ms

    def store_indexes(self) -> None:
        """Bring the indexes on disk up to date.  The time index then ends with the largest timestamp."""
        self.offset_index.store()
        if self._largest is not None:  # else nothing was written
            self.time_index.append(*self._largest)
        self.time_index.store()
        self.transaction_index.store()

    def try_store_indexes(self) -> None:
        """The same, but on a full disk, or the like, what cannot be stored stays in memory."""
        try:
            self.store_indexes()
        except OSError as error:
            if error.errno not in TRANSIENT_ERRNOS:
                raise

    def seal(self) -> None:
        """No append will follow."""
        self.store_indexes()
        self.unreserve()

    def sync(self, sealed: bool) -> None:
        """Force the entries, and the indexes of a sealed segment, to the disk.  Blocks; any thread."""
        try:
            handle = self._handle or FileHandle.open(self.path, os.O_RDWR)
        except FileNotFoundError:
            return
        os.fdatasync(handle.fd)
        if sealed:
            sync_file(self.offset_index.path)
            sync_file(self.time_index.path)
            sync_file(self.transaction_index.path)

    def truncate(self, offset: int) -> int | None:
        """Cut off the first entry that reaches `offset`, and all behind it; says its first offset."""
        header = self.find(offset)
        if header is None:
            return None
        self.cut(header.position)
        self.offset_index.truncate(header.first_offset)
        self.time_index.truncate(header.first_offset)
        self.transaction_index.truncate(header.first_offset)
        self._first_timestamp = None if self.size else -1
        self.unindexed = self.size - self.offset_index.last()[1]
        self._largest = self._scan_largest()
        return header.first_offset

    def delete(self, keep_snapshot: bool = False) -> DeletedFiles:
        """Rename the files away; what reads them holds them open."""
        renamed = []
        for suffix in names.SEGMENT_FILES[: -1 if keep_snapshot else None]:
            path = names.file_of(self.directory, self.base_offset, suffix)
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, path + names.DELETED)
                renamed.append(path + names.DELETED)
        self.close()
        return DeletedFiles(tuple(renamed), self.size)

    def close(self) -> None:
        """Give descriptor and loaded index back."""
        self.pools.files.forget(self)
        self.pools.indexes.forget(self.offset_index)
        self.offset_index.release()
        self._handle = None

    # Reading

    def find(self, offset: int, may_wait: bool = True) -> Header | None:
        """The first entry that reaches `offset`; None if none does.

        NotCached if the caller may not wait for the disk, but would have to; likewise below.
        """
        return self._with_sound_index(lambda: self._find(offset, may_wait))

    def boundary(self, start: int, limit: int, may_wait: bool = True) -> Header | None:
        """The entry, at or behind position `start`, that does not fit below `limit`; None if all do."""
        if limit >= self.size:
            return None
        return self._with_sound_index(lambda: self._boundary(start, limit, may_wait))

    def _find(self, offset: int, may_wait: bool = True) -> Header | None:
        indexed, position = self.offset_index.lookup(offset, may_wait)
        header = find_offset(self.walk(position, may_wait), offset, indexed)
        self._check_dense(position, header)
        return header

    def _boundary(self, start: int, limit: int, may_wait: bool) -> Header | None:
        indexed, position = self.offset_index.lookup_position(limit, may_wait)
        if position <= start:
            return find_boundary(self.walk(start, may_wait), limit)
        header = find_boundary(self.walk(position, may_wait), limit, indexed)
        self._check_dense(position, header)
        return header

    def _check_dense(self, position: int, found: Header | None) -> None:
        """What was passed behind an index entry must not be much more than the interval, or the index lacks some."""
        most = _SPARSE * max(self.index_interval, 4096)
        passed = (self.size if found is None else found.position) - position
        if passed > most:
            first = next(headers(self.walk(position)))
            if passed - first.size > most:
                raise IndexDamaged("entries are missing")

    def _with_sound_index(self, question: Callable[[], T]) -> T:
        try:
            return question()
        except IndexDamaged:
            self.rebuild_indexes()
            return question()

    # Time

    def first_timestamp(self) -> int:
        """The largest timestamp of the first entry; -1 if it has none."""
        if self._first_timestamp is None:
            self._first_timestamp = self.entry_at(0).max_timestamp if self.size else -1
        return self._first_timestamp

    def largest(self, may_wait: bool = True) -> tuple[int, int]:
        """The largest timestamp and the last offset of the entry that brought it; -1 if there are no timestamps."""
        if self._largest is None:
            try:
                self._largest = self._with_sound_index(lambda: self._read_largest(may_wait))
            except CorruptRecords:  # damaged entries: what could be indexed must do
                self._largest = self.time_index.last()
        return self._largest

    def _read_largest(self, may_wait: bool) -> tuple[int, int]:
        if not self.size:
            return -1, self.base_offset
        timestamp, offset = self.time_index.last(may_wait)
        if timestamp < 0 and self.entry_at(0, may_wait).max_timestamp < 0:
            return -1, self.base_offset
        self._check_time(timestamp, offset, may_wait)
        tail = self.entry_headers(self.offset_index.last(may_wait)[1], may_wait)
        if any(entry.max_timestamp > timestamp for _, entry in tail):
            raise IndexDamaged(self.time_index.path)
        return timestamp, offset

    def _scan_largest(self) -> tuple[int, int]:
        """The largest timestamp, when the file may be ahead of its time index."""
        largest = self.time_index.last()
        for _, entry in self.entry_headers(self.offset_index.last()[1]):
            if entry.max_timestamp > largest[0]:
                largest = entry.max_timestamp, entry.last_offset
        return largest

    def _check_time(self, timestamp: int, offset: int, may_wait: bool) -> None:
        header = self.find(offset, may_wait)
        if header is None or header.last_offset != offset:
            raise IndexDamaged(self.time_index.path)
        if self.entry_at(header.position, may_wait).max_timestamp != timestamp:
            raise IndexDamaged(self.time_index.path)

    def end_offset(self) -> int:
        """The offset behind the last entry, found from the last index entry on.  CorruptRecords if it can't be."""
        indexed, position = self.offset_index.last()
        find_offset(self.walk(position), indexed, indexed)
        end = self.base_offset
        for header in headers(self.walk(position)):
            end = header.last_offset + 1
        self.unindexed = self.size - position
        return end

    def find_timestamp(self, timestamp: int, from_offset: int, may_wait: bool = True) -> Iterator[Header]:
        """The entries with records as young as `timestamp`, at or behind `from_offset`, in order."""
        position = self._with_sound_index(lambda: self._time_position(timestamp, from_offset, may_wait))
        for header, entry in self.entry_headers(position, may_wait):
            if entry.max_timestamp >= timestamp and entry.last_offset >= from_offset:
                yield header

    def _time_position(self, timestamp: int, from_offset: int, may_wait: bool) -> int:
        indexed, offset = self.time_index.lookup(timestamp, may_wait)
        if indexed >= 0:
            self._check_time(indexed, offset, may_wait)
        header = self._find(max(offset, from_offset), may_wait)
        return self.size if header is None else header.position

    def rebuild_indexes(self) -> None:
        """Build both indexes anew from the entries' headers, as far as these are sound."""
        end = self.size
        self.begin_rebuild()
        with contextlib.suppress(CorruptRecords):
            for header in headers(self.addressing.walk(self.reader(), 0, end, self.base_offset)):
                if not self.base_offset <= header.last_offset <= self.base_offset + MAX_RELATIVE:
                    break
                entry = self.parse_header(self.reader(), header.position, header.size)
                self.note(entry.last_offset, entry.max_timestamp, header.size)
        self.size = end
        self.try_store_indexes()

    def begin_rebuild(self) -> None:
        """Forget the indexes and all that follows from the entries; `note` tells them one after the other."""
        self.offset_index.clear()
        self.time_index.clear()
        self.size = self.unindexed = 0
        self._largest, self._first_timestamp = (-1, self.base_offset), None

    def view(self, next_offset: int, active: bool) -> SegmentView:
        """What a delete policy sees."""
        modified = int(os.stat(self.path).st_mtime * 1000)
        return SegmentView(self.base_offset, next_offset, self.size, self.largest()[0], modified, active)
