"""Finds the record with the largest timestamp between two offsets, although others are later.

Those were deleted, or consumers do not see them yet.

Segments are scanned in the order of their largest timestamps, until no other can have a later record. The time index
names a batch before which none is as late. A worker reads the headers from there on, usually a few, and decodes the
latest batch.

A header counts for all records of its batch. So a batch that begins before the range is decoded at once. If the latest
batch has no record as late as its header claims, all are decoded that may be later than the records found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

import attrs

from pylogbroker.records import NO_TIMESTAMP, LogEntry, entries
from pylogbroker.storage.files import FileHandle, FileRegion
from pylogbroker.storage.log.header_scan import Header
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.log.timestamp_lookup import TimestampedOffset

_HEADERS_PER_STEP: Final = 500  # about 5 ms
_BATCHES_PER_STEP: Final = 20  # decoded


@attrs.define
class NewestSearch:
    """Search below offset `bound`, segment by segment. Of records with equal timestamps the first counts."""

    bound: int
    newest: TimestampedOffset | None = None
    _scanned: set[int] = attrs.field(factory=set, init=False)  # base offsets of segments

    def next_scan(self, segments: Sequence[Segment], start: int, may_wait: bool) -> NewestScan | None:
        """Return the scan of a segment from offset `start` on; None when no other has a later record."""
        ends = [*(segment.base_offset for segment in segments[1:]), self.bound]
        promising = [
            (segment.largest(may_wait)[0], segment)
            for segment, end in zip(segments, ends, strict=True)
            if start < end and segment.base_offset < self.bound and segment.base_offset not in self._scanned
        ]
        if not promising:
            return None
        largest, segment = max(promising, key=itemgetter(0))  # the first of several
        if not self._is_newer(largest, segment.base_offset):
            return None
        begin = segment.newest_scan(start, self.bound, may_wait)
        self._scanned.add(segment.base_offset)
        return NewestScan(segment.file.handle, begin, start, self.bound, largest)

    def note(self, candidate: TimestampedOffset | None) -> None:
        if candidate is not None and self._is_newer(candidate.timestamp, candidate.offset):
            self.newest = candidate

    def _is_newer(self, timestamp: int, offset: int) -> bool:
        newest = self.newest
        return timestamp >= 0 and (newest is None or (timestamp, -offset) > (newest.timestamp, -newest.offset))


@attrs.define
class NewestScan:
    """Scan of a segment's batches between two offsets, in steps. `largest` is the segment's largest timestamp."""

    _file: FileHandle
    _begin: Callable[[], Iterator[tuple[Header, LogEntry]]]
    _start: int
    _bound: int
    _largest: int
    newest: TimestampedOffset | None = attrs.field(default=None, init=False)
    _headers: Iterator[tuple[Header, LogEntry]] = attrs.field(init=False)
    _latest: Header | None = attrs.field(default=None, init=False)  # not decoded yet
    _timestamp: int = attrs.field(default=NO_TIMESTAMP, init=False)  # largest so far
    _believes_headers: bool = attrs.field(default=True, init=False)

    def __attrs_post_init__(self) -> None:
        self._headers = self._begin()

    def advance(self) -> bool:
        """Scan some batches; return whether the scan has ended. Blocks; any thread."""
        limit = _HEADERS_PER_STEP if self._believes_headers else _BATCHES_PER_STEP
        scanned = 0
        for header, entry in islice(self._headers, limit):
            scanned += 1
            if header.first_offset >= self._bound or self._timestamp >= self._largest:
                return self._end()
            if entry.max_timestamp <= self._timestamp or entry.last_offset < self._start:
                continue
            if self._believes_headers and header.first_offset >= self._start:
                self._latest, self._timestamp = header, entry.max_timestamp
            else:
                self._decode(header)
        return scanned < limit and self._end()

    def _end(self) -> bool:
        if self._latest is None:
            return True
        header, claimed = self._latest, self._timestamp
        self._latest, self._timestamp = None, NO_TIMESTAMP if self.newest is None else self.newest.timestamp
        self._decode(header)
        if self._timestamp == claimed:
            return True
        self._believes_headers, self._headers = False, self._begin()
        self.newest, self._timestamp = None, NO_TIMESTAMP
        return False

    def _decode(self, header: Header) -> None:
        for entry in entries(FileRegion(self._file, header.position, header.size).read()):
            for record in entry.records():
                if record.timestamp > self._timestamp and self._start <= record.offset < self._bound:
                    self._timestamp = record.timestamp
                    self.newest = TimestampedOffset(record.offset, record.timestamp, entry.leader_epoch)
