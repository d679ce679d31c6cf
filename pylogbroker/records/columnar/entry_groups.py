"""Groups of entries: fetched bytes, checked and decompressed, ready to be decoded together.

    buffer   | batch | batch | message | message | batch | bat
    groups   |     group     |       group       | group |  truncated: skipped

A group has either v2 batches or messages (v0, v1). Groups are decompressed on request and end after some megabytes, to
save memory.

Empty batches, markers, known aborted transactions, and entries from the requested end on are skipped. The error of a
damaged entry comes after the group before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from pylogbroker.errors import PylogbrokerError
from pylogbroker.records.batch import CODEC, CONTROL, CRC_START, HEADER_V2, TRANSACTIONAL, read_records
from pylogbroker.records.checksum import crc32c
from pylogbroker.records.compression import DECOMPRESSED_BYTES_MAX, codec_of, inflate
from pylogbroker.records.log_entry import LogEntry, bounds, parse
from pylogbroker.records.model import Buffer, Record, view

GROUP_BYTES: Final = 8 << 20  # decompressed
_START: Final = struct.Struct(">q8xbIh")  # offset and magic of any entry; CRC and attributes of a batch
_SPECIAL: Final = CODEC | CONTROL | TRANSACTIONAL
_COUNT: Final = struct.Struct(">57xi")
_NOTHING: Final = memoryview(b"")

BatchHeaders: TypeAlias = npt.NDArray[np.void]

_BATCH_HEADER: Final[np.dtype[Any]] = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("first_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
_ROW: Final = np.dtype((np.void, _BATCH_HEADER.itemsize))  # numpy copies whole rows faster than fields


def batch_headers_at(buffer: Buffer, places: npt.NDArray[np.int64] | list[int]) -> BatchHeaders:
    windows: BatchHeaders = np.ndarray((len(buffer) - _BATCH_HEADER.itemsize + 1,), _ROW, buffer, strides=(1,))
    return windows[places].view(_BATCH_HEADER)


class AbortedTransactions:
    """Aborted transactions of a fetch response, for `read_committed`; each is open from its first offset to its abort
    marker.
    """

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        """Take pairs of producer id and first offset."""
        self._coming = sorted(((first, producer_id) for producer_id, first in transactions), reverse=True)
        self._open: set[int] = set()

    def hides(self, entry: LogEntry) -> bool:
        """Return True for an aborted batch; call it in order."""
        while self._coming and self._coming[-1][0] <= entry.last_offset:
            self._open.add(self._coming.pop()[1])
        if entry.producer_id not in self._open:
            return False
        if entry.is_control:
            marker = entry.marker
            if marker is not None and not marker.committed:
                self._open.discard(entry.producer_id)
        return entry.is_transactional


@attrs.define(eq=False, repr=False)
class EntryGroup:
    next_offset: int = -1
    limit: int = DECOMPRESSED_BYTES_MAX
    buffer: memoryview = _NOTHING

    places: list[int] = attrs.Factory(list)
    """Start of each v2 batch in the buffer."""

    stops: list[int] = attrs.Factory(list)

    inflated: dict[int, Buffer] = attrs.Factory(dict)
    """Decompressed records by their batch's start."""

    _entries: list[LogEntry] = attrs.Factory(list)

    @property
    def entries(self) -> list[LogEntry]:
        """Entries; v2 batches are parsed on demand."""
        some = slice(len(self._entries), None)
        self._entries += map(parse, map(self._cut, self.places[some], self.stops[some]))
        return self._entries

    @property
    def payloads(self) -> list[Buffer]:
        """Decompressed records of each v2 batch; empty for messages."""
        behind = HEADER_V2.size
        return [
            self.inflated[place] if place in self.inflated else self._cut(place + behind, stop)
            for place, stop in zip(self.places, self.stops, strict=True)
        ]

    @property
    def batch_headers(self) -> BatchHeaders:
        return batch_headers_at(self.buffer, self.places)

    @property
    def is_v2(self) -> bool:
        return bool(self.places)

    @property
    def record_count(self) -> int:
        if self.is_v2:
            return sum(_COUNT.unpack_from(self.buffer, place)[0] for place in self.places)
        return len(self._entries)

    def records(self) -> Iterator[Record]:
        if not self.is_v2:
            for entry in self.entries:
                yield from entry.records(self.limit)
        for entry, payload in zip(self.entries, self.payloads, strict=False):
            append_time = entry.max_timestamp if entry.timestamp_type else None
            yield from read_records(bytes(payload), entry.count, entry.base_offset, entry.first_timestamp, append_time)

    def singles(self) -> Iterator[EntryGroup]:
        """Yield a group for each entry, or the empty group itself."""
        last = len(self.entries) - 1
        for index, entry in enumerate(self.entries):
            behind = self.next_offset if index == last else entry.next_offset
            some = slice(index, index + 1)
            places, stops = self.places[some], self.stops[some]
            yield attrs.evolve(self, next_offset=behind, entries=[entry], places=places, stops=stops)
        if not self.entries:
            yield self

    def ended_at(self, place: int, stop: int) -> EntryGroup:
        """Set `next_offset` from the last entry, maybe a skipped one."""
        self.next_offset = parse(self._cut(place, stop)).next_offset
        return self

    def _cut(self, place: int, stop: int) -> memoryview:
        return self.buffer[place:stop]


def entry_groups(
    buffer: Buffer,
    aborted: AbortedTransactions | None = None,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
    enough: int = GROUP_BYTES,
    check: bool = True,
    end: int | None = None,
) -> Iterator[EntryGroup]:
    """Split `buffer` into groups; a truncated last entry is skipped.

    No batch may decompress to more than `limit` bytes. Without `check`, checksums are ignored. `end` is the first
    unwanted offset, but the last batch may contain it.
    """
    buffer = view(buffer)
    group, size, last = EntryGroup(limit=limit, buffer=buffer), 0, (0, 0)
    of_batches: bool | None = None  # None for an empty group
    failure: PylogbrokerError | None = None
    try:
        for place, stop in bounds(buffer, partial=True):
            offset, magic, crc, attributes = _START.unpack_from(buffer, place)
            is_v2 = magic == 2
            if end is not None and offset >= end and (is_v2 or parse(buffer[place:stop]).count == 1):
                last = place, stop
                break
            if check and not (is_v2 and crc32c(buffer[place + CRC_START : stop]) == crc):
                parse(buffer[place:stop]).check()
            inflated: Buffer | None = None
            if is_v2 and (attributes & _SPECIAL or stop - place == HEADER_V2.size):
                whole = buffer[place:stop]
                if _is_skipped(parse(whole), aborted):
                    last = place, stop
                    continue
                if attributes & CODEC:
                    inflated = inflate(codec_of(attributes), whole[HEADER_V2.size :], 2, limit)
            if size >= enough or of_batches not in (None, is_v2):
                yield group.ended_at(*last)
                group, size = EntryGroup(limit=limit, buffer=buffer), 0
            last, of_batches = (place, stop), is_v2
            if is_v2:
                group.places.append(place)
                group.stops.append(stop)
            else:
                group.entries.append(parse(buffer[place:stop]))
            if inflated is not None:
                group.inflated[place] = inflated
            size += stop - place if inflated is None else len(inflated)
    except PylogbrokerError as error:
        failure = error
    if last[1]:
        yield group.ended_at(*last)
    if failure is not None:
        raise failure


def _is_skipped(entry: LogEntry, aborted: AbortedTransactions | None) -> bool:
    hidden = aborted is not None and aborted.hides(entry)
    emptied = entry.size == HEADER_V2.size and not entry.count and not entry.attributes & CODEC  # by compaction
    return hidden or emptied or entry.is_control
