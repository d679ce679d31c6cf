"""A segment: a record file (see `segment_file`) with its indexes. Sealed segments do not change.

The offset and the time index are hints. Each result is compared with its batch; if they differ, both are rebuilt.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final, Protocol, TypeVar

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.interfaces import SegmentView
from pylogbroker.records import LogEntry
from pylogbroker.storage import names
from pylogbroker.storage.files import TRANSIENT_ERRNOS, Buffer, DeletedFiles, FileHandle, Pools, remove, sync_file
from pylogbroker.storage.log.addressing import OFFSET_ADDRESSED, Addressing
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.header_scan import Header, IndexDamaged, checked, find_boundary, find_offset, headers
from pylogbroker.storage.log.offset_index import ENTRY_SIZE as OFFSET_ENTRY
from pylogbroker.storage.log.offset_index import OffsetIndex
from pylogbroker.storage.log.segment_file import SegmentFile
from pylogbroker.storage.log.time_index import ENTRY_SIZE as TIME_ENTRY
from pylogbroker.storage.log.time_index import TimeIndex
from pylogbroker.storage.log.transaction_index import TransactionIndex

RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF  # in an index entry
_UNINDEXED_INTERVALS_MAX: Final = 64  # scanned by a lookup before the index counts as incomplete
T = TypeVar("T")


_max_timestamp = attrgetter("max_timestamp")


class WrittenEntry(Protocol):
    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def size(self) -> int: ...


@attrs.define(eq=False, repr=False)
class Segment:
    base_offset: int
    size: int
    file: SegmentFile
    offset_index: OffsetIndex
    time_index: TimeIndex
    transaction_index: TransactionIndex
    index_interval: int = 4096
    created_ms: int = 0
    jitter_ms: int = 0
    unindexed: int = 0  # bytes since the last index entry
    _has_new_entries: bool = True  # in the indexes, since they were last found not to be full
    _largest: tuple[int, int] | None = None  # timestamp and its batch's last offset, once known
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
        """`sizes` has the files' sizes by suffix."""

        def file(suffix: str) -> tuple[str, int]:
            return names.file_of(directory, base_offset, suffix), sizes.get(suffix, 0)

        offsets, offsets_size = file(names.OFFSET_INDEX)
        times, times_size = file(names.TIME_INDEX)
        return cls(
            base_offset,
            sizes[names.RECORDS],
            SegmentFile(directory, base_offset, pools, addressing),
            OffsetIndex(offsets, base_offset, offsets_size, pools.indexes),
            TimeIndex(times, base_offset, times_size),
            TransactionIndex(*file(names.TRANSACTION_INDEX)),
            created_ms=created_ms,
        )

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
        segment = cls.existing(directory, base_offset, {names.RECORDS: 0}, pools, now_ms, addressing)
        segment.file.keep_open(FileHandle.open(segment.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
        if preallocate:
            segment.file.preallocate(preallocate)
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX):
            remove(names.file_of(directory, base_offset, suffix))
        segment._largest, segment._first_timestamp = (-1, base_offset), -1
        return segment

    @property
    def path(self) -> str:
        return self.file.path

    # Writing

    def append(self, chunks: Sequence[Buffer], size: int, entries: Sequence[WrittenEntry]) -> None:
        """Write `chunks`, the bytes of `entries`; on OSError nothing has changed."""
        self.file.write(chunks, size, self.size)
        if not self.size:
            self._first_timestamp = entries[0].max_timestamp
        if len(entries) > 1 and self.unindexed + size - entries[-1].size <= self.index_interval:
            self._note_unindexed(size, entries)
            return
        for entry in entries:
            self.note(entry.last_offset, entry.max_timestamp, entry.size)

    def _note_unindexed(self, size: int, entries: Sequence[WrittenEntry]) -> None:
        """Count batches of which none is due for the index."""
        newest = max(entries, key=_max_timestamp)
        largest = self._largest or self.largest()
        if newest.max_timestamp > largest[0]:
            self._largest = newest.max_timestamp, newest.last_offset
        self.unindexed += size
        self.size += size

    def note(self, last_offset: int, max_timestamp: int, size: int) -> None:
        """Count the next batch in the file; index it if due."""
        largest = self._largest or self.largest()
        if max_timestamp > largest[0]:
            self._largest = largest = max_timestamp, last_offset
        if self.unindexed > self.index_interval:
            self.unindexed, self._has_new_entries = 0, True
            try:  # without `suppress`: most larger batches are indexed
                self.offset_index.append(last_offset, self.size)
                self.time_index.append(*largest)
            except OSError:
                pass  # the entries stay buffered
        self.unindexed += size
        self.size += size

    def must_roll(self, size: int, last_offset: int, timestamp: int, now_ms: int, config: LogConfig) -> bool:
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if not self.size:
            return False
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp()
        age_ms = timestamp - first if first >= 0 else now_ms - self.created_ms
        return (
            size > config.segment_bytes - self.size
            or age_ms > config.longest_segment_ms - self.jitter_ms
            or (self._has_new_entries and self._has_full_index(config.segment_index_bytes))
        )

    def _has_full_index(self, index_bytes: int) -> bool:
        self._has_new_entries = (
            len(self.offset_index) >= index_bytes // OFFSET_ENTRY
            or len(self.time_index) >= index_bytes // TIME_ENTRY - 1
        )
        return self._has_new_entries

    def store_indexes(self) -> None:
        """Write the buffered entries, and end the time index with the largest timestamp."""
        self.offset_index.store()
        if self._largest is not None:  # else nothing was written
            self.time_index.append(*self._largest)
        self.time_index.store()
        self.transaction_index.store()

    def try_store_indexes(self) -> None:
        try:
            self.store_indexes()
        except OSError as error:
            if error.errno not in TRANSIENT_ERRNOS:
                raise

    def seal(self) -> None:
        """Store the indexes, release reserved blocks."""
        self.store_indexes()
        self.file.unreserve(self.size)

    def sync(self, sealed: bool) -> None:
        """Sync the records, and a sealed segment's indexes. Blocks; any thread."""
        if self.file.sync() and sealed:
            sync_file(self.offset_index.path)
            sync_file(self.time_index.path)
            sync_file(self.transaction_index.path)

    def truncate(self, offset: int) -> int | None:
        """Drop batches from the first one with records at or above `offset` on; return its first offset."""
        header = self.find(offset)
        if header is None:
            return None
        self.file.cut(header.position)
        self.size = header.position
        self.offset_index.truncate(header.first_offset)
        self.time_index.truncate(header.first_offset)
        self.transaction_index.truncate(header.first_offset)
        self._first_timestamp = None if self.size else -1
        self.unindexed = self.size - self.offset_index.last()[1]
        self._largest = self._scan_largest()
        return header.first_offset

    def delete(self, keep_snapshot: bool = False) -> DeletedFiles:
        """Rename the files; readers hold them open."""
        renamed = []
        for suffix in names.SEGMENT_FILES[: -1 if keep_snapshot else None]:
            path = names.file_of(self.file.directory, self.base_offset, suffix)
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, path + names.DELETED)
                renamed.append(path + names.DELETED)
        self.close()
        return DeletedFiles(tuple(renamed), self.size)

    def relocate(self, directory: str) -> None:
        """Follow a renamed directory."""
        self.file.directory = directory
        self.offset_index.path = names.file_of(directory, self.base_offset, names.OFFSET_INDEX)
        self.time_index.path = names.file_of(directory, self.base_offset, names.TIME_INDEX)
        self.transaction_index.path = names.file_of(directory, self.base_offset, names.TRANSACTION_INDEX)

    def close(self) -> None:
        """Release the descriptor and the index; both are opened again on demand."""
        self.file.close()
        self.file.pools.indexes.forget(self.offset_index)
        self.offset_index.release()

    # Reading

    def entry_headers(self, position: int = 0, may_wait: bool = True) -> Iterator[tuple[Header, LogEntry]]:
        return self.file.entry_headers(position, self.size, may_wait)

    def find(self, offset: int, may_wait: bool = True) -> Header | None:
        """Return the first batch with records at or above `offset`, or None."""
        return self._with_valid_index(lambda: self._find(offset, may_wait))

    def boundary(self, start: int, limit: int, may_wait: bool = True) -> Header | None:
        """Return the first batch at or after position `start` that ends beyond `limit`."""
        if limit >= self.size:
            return None
        try:  # not by `_with_valid_index`: most fetches come here
            return self._boundary(start, limit, may_wait)
        except IndexDamaged:
            self.rebuild_indexes()
            return self._boundary(start, limit, may_wait)

    def _find(self, offset: int, may_wait: bool = True) -> Header | None:
        indexed, position = self.offset_index.lookup(offset, may_wait)
        header = find_offset(self.file.scan(position, self.size, may_wait), offset, indexed)
        self._check_density(position, header)
        return header

    def _boundary(self, start: int, limit: int, may_wait: bool) -> Header | None:
        indexed, position = self.offset_index.lookup_position(limit, may_wait)
        if position <= start:
            return find_boundary(self.file.scan(start, self.size, may_wait), limit)
        header = find_boundary(self.file.scan(position, self.size, may_wait), limit, indexed)
        self._check_density(position, header)
        return header

    def _check_density(self, position: int, header: Header | None) -> None:
        limit = _UNINDEXED_INTERVALS_MAX * max(self.index_interval, 4096)
        scanned = (self.size if header is None else header.position) - position
        if scanned > limit:
            first = next(headers(self.file.scan(position, self.size)))
            if scanned - first.size > limit:
                raise IndexDamaged("entries are missing")

    def _with_valid_index(self, lookup: Callable[[], T]) -> T:
        """Return the result of `lookup`; first rebuild indexes that it finds damaged."""
        try:
            return lookup()
        except IndexDamaged:
            self.rebuild_indexes()
            return lookup()

    def end_offset(self) -> int:
        """Return the offset after the last batch; raise CorruptRecords."""
        indexed, position = self.offset_index.last()
        end = self.base_offset
        for *_, last_offset in checked(self.file.scan(position, self.size), indexed):
            end = last_offset + 1
        self.unindexed = self.size - position
        return end

    def end_of_batches(self) -> int:
        """Like `end_offset`, but rebuild a damaged index."""
        return self._with_valid_index(self.end_offset)

    # Time

    def first_timestamp(self) -> int:
        """Return the first batch's largest timestamp; -1 without one."""
        if self._first_timestamp is None:
            self._first_timestamp = self.file.entry_at(0, self.size).max_timestamp if self.size else -1
        return self._first_timestamp

    def largest(self, may_wait: bool = True) -> tuple[int, int]:
        """Return the largest timestamp, or -1, and the last offset of its batch."""
        if self._largest is None:
            try:
                self._largest = self._with_valid_index(lambda: self._read_largest(may_wait))
            except CorruptRecords:  # then use the index as it is
                self._largest = self.time_index.last()
        return self._largest

    def _read_largest(self, may_wait: bool) -> tuple[int, int]:
        if not self.size:
            return -1, self.base_offset
        timestamp, offset = self.time_index.last(may_wait)
        if timestamp < 0 and self.file.entry_at(0, self.size, may_wait).max_timestamp < 0:
            return -1, self.base_offset
        self._check_time(timestamp, offset, may_wait)
        tail = self.entry_headers(self.offset_index.last(may_wait)[1], may_wait)
        if any(entry.max_timestamp > timestamp for _, entry in tail):
            raise IndexDamaged(self.time_index.path)
        return timestamp, offset

    def _scan_largest(self) -> tuple[int, int]:
        """Return the largest timestamp although the time index may lack the last batches."""
        largest = self.time_index.last()
        for _, entry in self.entry_headers(self.offset_index.last()[1]):
            if entry.max_timestamp > largest[0]:
                largest = entry.max_timestamp, entry.last_offset
        return largest

    def _check_time(self, timestamp: int, offset: int, may_wait: bool) -> None:
        header = self.find(offset, may_wait)
        if header is None or header.last_offset != offset:
            raise IndexDamaged(self.time_index.path)
        if self.file.entry_at(header.position, self.size, may_wait).max_timestamp != timestamp:
            raise IndexDamaged(self.time_index.path)

    def find_timestamp(self, timestamp: int, from_offset: int, may_wait: bool = True) -> Iterator[Header]:
        """Yield the batches at or after `from_offset` with at least `timestamp`, in order."""
        position = self._with_valid_index(lambda: self._time_position(timestamp, from_offset, may_wait))
        for header, entry in self.entry_headers(position, may_wait):
            if entry.max_timestamp >= timestamp and entry.last_offset >= from_offset:
                yield header

    def _time_position(self, timestamp: int, from_offset: int, may_wait: bool) -> int:
        indexed, offset = self.time_index.lookup(timestamp, may_wait)
        if indexed >= 0:
            self._check_time(indexed, offset, may_wait)
        header = self._find(max(offset, from_offset), may_wait)
        return self.size if header is None else header.position

    def newest_scan(self, start: int, bound: int, may_wait: bool) -> Callable[[], Iterator[tuple[Header, LogEntry]]]:
        """Return a function that yields the batches from offset `start` on that may be the latest before `bound`.

        Any thread may use it.
        """
        position = self._with_valid_index(lambda: self._newest_position(start, bound, may_wait))
        return self.file.header_scan(position, self.size)

    def _newest_position(self, start: int, bound: int, may_wait: bool) -> int:
        timestamp, offset = self.largest(may_wait)
        if offset >= bound:
            timestamp, offset = self.time_index.lookup_offset(bound, may_wait)
        if timestamp >= 0:
            self._check_time(timestamp, offset, may_wait)
        header = self._find(max(offset, start), may_wait)
        return self.size if header is None else header.position

    # Rebuilding

    def rebuild_indexes(self) -> None:
        """Rebuild up to the first invalid batch."""
        end = self.size
        self.begin_rebuild()
        with contextlib.suppress(CorruptRecords):
            for header, entry in self.file.entry_headers(0, end):
                if not self.base_offset <= header.last_offset <= self.base_offset + RELATIVE_OFFSET_MAX:
                    break
                self.note(entry.last_offset, entry.max_timestamp, header.size)
        self.size = end
        self.try_store_indexes()

    def begin_rebuild(self) -> None:
        """Drop all derived from the batches; then call `note` with each batch."""
        self.offset_index.clear()
        self.time_index.clear()
        self.size = self.unindexed = 0
        self._largest, self._first_timestamp = (-1, self.base_offset), None

    def view(self, next_offset: int, active: bool) -> SegmentView:
        modified = int(os.stat(self.path).st_mtime * 1000)
        return SegmentView(self.base_offset, next_offset, self.size, self.largest()[0], modified, active)
