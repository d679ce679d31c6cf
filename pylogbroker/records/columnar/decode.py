"""Decoder of fetched bytes to columns: offsets, timestamps, and spans of keys and values.

    for columns in decode(fetched):
        columns.offsets, columns.timestamps           # int64
        columns.keys(), columns.values()              # lists of bytes or None
        columns.data, columns.value_starts            # spans in one array, for bulk copies

A group's records are decoded together, field by field. If lengths and counts disagree, they are decoded one by one,
with the errors of `LogEntry.records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import Final

import attrs
import numpy as np

from pylogbroker.errors import CorruptRecords, PylogbrokerError
from pylogbroker.records.batch import HEADER_V2, TIMESTAMP_TYPE, encode_headers, read_headers
from pylogbroker.records.columnar.entry_groups import AbortedTransactions, BatchHeaders, EntryGroup, entry_groups
from pylogbroker.records.columnar.record_starts import ZIGZAG_LENGTH_MAX, RecordPositions, find_records
from pylogbroker.records.columnar.varints import Bytes, Flags, Ints, NotUniform, raw_varints, require
from pylogbroker.records.compression import DECOMPRESSED_BYTES_MAX
from pylogbroker.records.model import Buffer, Header

_HEADERS_MAX: Final = 64  # per record; each costs a pass over all records
_GATHERED_SPAN_BYTES_MAX: Final = 8192  # longer spans are faster to slice one by one
_GATHERED_BYTES_MAX: Final = 1 << 16  # gathered before they are split into spans; it stays in the processor's cache
_VIEWED_SPAN_BYTES_MIN: Final = 2048  # mean length of spans that are faster to copy from a view than from a copy of all
_ALL: Final = slice(None)
_ADDEND_MAX: Final = 1 << 61  # no overflow if a varint of nine bytes is added


@attrs.define(eq=False, repr=False)
class Columns:
    """Records as columns; lengths of nulls are -1."""

    next_offset: int
    """Offset to fetch next; may be beyond the last record."""

    raw: Buffer
    """Bytes that the spans refer to."""

    offsets: Ints
    timestamps: Ints
    timestamp_types: Ints
    key_starts: Ints
    key_lengths: Ints
    value_starts: Ints
    value_lengths: Ints
    header_starts: Ints
    has_headers: bool
    _copy: bytes = attrs.field(default=b"", init=False)  # of `raw`, once spans are sliced from it

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def data(self) -> Bytes:
        return np.frombuffer(self.raw, np.uint8)

    def keys(self) -> list[bytes | None]:
        return list(self.iter_keys())

    def values(self) -> list[bytes | None]:
        return list(self.iter_values())

    def headers(self) -> list[tuple[Header, ...]]:
        return list(self.iter_headers())

    def iter_keys(self, some: slice = _ALL) -> Iterator[bytes | None]:
        """Yield the keys of some records; they are copied as they are read, a few at a time."""
        return self._spans(self.key_starts[some], self.key_lengths[some])

    def iter_values(self, some: slice = _ALL) -> Iterator[bytes | None]:
        """Yield the values of some records; they are copied as they are read, a few at a time."""
        return self._spans(self.value_starts[some], self.value_lengths[some])

    def iter_headers(self, some: slice = _ALL) -> Iterator[tuple[Header, ...]]:
        starts = self.header_starts[some]
        if not self.has_headers:
            return repeat((), len(starts))
        raw = self._bytes()
        return (read_headers(raw, start)[0] for start in starts.tolist())

    def select(self, chosen: Flags | slice) -> Columns:
        return attrs.evolve(self, **{name: getattr(self, name)[chosen] for name in _COLUMNS})

    def _bytes(self) -> bytes:
        if isinstance(self.raw, bytes):
            return self.raw
        if not self._copy:
            self._copy = bytes(self.raw)
        return self._copy

    def _spans(self, begins: Ints, lengths: Ints) -> Iterator[bytes | None]:
        if not lengths.size:
            return iter(())
        length = int(lengths[0])
        if (lengths == length).all():
            if length < 0:
                return repeat(None, len(begins))
            if 0 < length <= _GATHERED_SPAN_BYTES_MAX:
                return chain.from_iterable(_gathered(self.raw, begins, length))
        if not isinstance(self.raw, bytes) and lengths.mean() > _VIEWED_SPAN_BYTES_MIN:
            return _copied(memoryview(self.raw), begins, lengths)
        return _sliced(self._bytes(), begins, lengths)


def _copied(raw: memoryview, begins: Ints, lengths: Ints) -> Iterator[bytes | None]:
    bounds = zip(begins.tolist(), lengths.tolist(), strict=True)
    return (None if length < 0 else bytes(raw[start : start + length]) for start, length in bounds)


def _sliced(raw: bytes, begins: Ints, lengths: Ints) -> Iterator[bytes | None]:
    if lengths.min() < 0:
        bounds = zip(begins.tolist(), lengths.tolist(), strict=True)
        return (None if length < 0 else raw[start : start + length] for start, length in bounds)
    return (raw[start:end] for start, end in zip(begins.tolist(), (begins + lengths).tolist(), strict=True))


def _gathered(raw: Buffer, begins: Ints, length: int) -> Iterator[list[bytes]]:
    """Yield lists of spans of one length, gathered in bulk, which is several times faster."""
    windows = np.ndarray((len(raw) - length + 1,), f"V{length}", raw, 0, (1,))
    step = _GATHERED_BYTES_MAX // length
    for first in range(0, len(begins), step):
        yield windows[begins[first : first + step]].tolist()


_COLUMNS: Final = (
    "offsets",
    "timestamps",
    "timestamp_types",
    "key_starts",
    "key_lengths",
    "value_starts",
    "value_lengths",
    "header_starts",
)


def decode(
    buffer: Buffer,
    first_offset: int = 0,
    aborted: AbortedTransactions | None = None,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
    check: bool = True,
) -> Iterator[Columns]:
    """Decode the records of any format from `first_offset` on, some megabytes at a time.

    Markers, aborted data and a truncated last entry are skipped. Raise CorruptRecords for damage, or InvalidRecords for
    an unknown codec, after the records before it. Without `check`, checksums are ignored.
    """
    return columns_from(entry_groups(buffer, aborted, limit=limit, check=check), first_offset)


def columns_from(groups: Iterable[EntryGroup], first_offset: int) -> Iterator[Columns]:
    for group in groups:
        for columns in columns_of(group):
            early = columns.offsets < first_offset
            yield columns.select(~early) if early.any() else columns


def columns_of(group: EntryGroup, *, in_place: bool = False) -> Iterator[Columns]:
    """Yield one `Columns` for the group, or one per entry if it cannot be decoded together.

    With `in_place`, spans may refer to the fetched buffer.
    """
    try:
        columns = _decode_together(group, in_place) if group.is_v2 else _decode_messages(group)
    except (NotUniform, PylogbrokerError):
        for single in group.singles():
            yield _one_by_one(single)
    else:
        yield columns


def _decode_messages(group: EntryGroup) -> Columns:
    """Decode uncompressed messages; raise NotUniform for compressed sets, whose counts are unknown."""
    require(_column(entry.count for entry in group.entries) >= 0)
    return _one_by_one(group)


def _decode_together(group: EntryGroup, in_place: bool) -> Columns:
    batch_headers = group.batch_headers
    counts = batch_headers["count"].astype(np.int64)
    raw, begins, sizes = _in_place(group) if in_place and not group.inflated else _side_by_side(group.payloads)
    bases, firsts = batch_headers["base_offset"], batch_headers["first_timestamp"]
    require((np.maximum(bases, firsts) < _ADDEND_MAX) & (np.minimum(bases, firsts) > -_ADDEND_MAX))
    ends = begins + sizes
    positions = find_records(np.frombuffer(raw, np.uint8), raw, begins, ends, counts)
    return _columns_at(group, raw, batch_headers, counts, positions)


def _in_place(group: EntryGroup) -> tuple[Buffer, Ints, Ints]:
    first, behind = group.places[0], group.stops[-1]
    begins = np.array(group.places) + HEADER_V2.size
    return group.buffer[first:behind], begins - first, np.array(group.stops) - begins


def _side_by_side(payloads: list[Buffer]) -> tuple[Buffer, Ints, Ints]:
    sizes = _column(map(len, payloads))
    return b"".join(payloads), np.cumsum(sizes) - sizes, sizes


def _columns_at(
    group: EntryGroup, raw: Buffer, batch_headers: BatchHeaders, counts: Ints, positions: RecordPositions
) -> Columns:
    data = np.frombuffer(raw, np.uint8)
    key_start, key_length, at = _field(data, positions.key_length_at)
    value_start, value_length, at = _field(data, at)
    has_headers = _check_headers(data, at, positions.end)
    times, kinds = _timestamps(batch_headers, counts, positions.timestamp_delta)
    offsets = positions.offset_delta + batch_headers["base_offset"].astype(np.int64).repeat(counts)
    return Columns(
        group.next_offset, raw, offsets, times, kinds, key_start, key_length, value_start, value_length, at, has_headers
    )


def _field(data: Bytes, at: Ints) -> tuple[Ints, Ints, Ints]:
    size, start = raw_varints(data, at)
    require(size < ZIGZAG_LENGTH_MAX)
    null = size & 1
    length = size >> 1
    if not null.any():
        return start, length, start + length
    length *= 1 - null
    return start, length - null, start + length


def _check_headers(data: Bytes, at: Ints, end: Ints) -> bool:
    """Return whether some records have headers; raise NotUniform if these end elsewhere than records."""
    some = np.flatnonzero(data.take(at, mode="clip"))
    if not some.size:
        require(at + 1 == end)
        return False
    count, behind = raw_varints(data, at)
    require((count & 1 == 0) & (count <= _HEADERS_MAX << 1))
    count >>= 1
    while (left := np.flatnonzero(count)).size:
        size, key = raw_varints(data, behind[left])
        require((size & 1 == 0) & (size < ZIGZAG_LENGTH_MAX))
        _, _, behind[left] = _field(data, key + (size >> 1))
        require(behind[left] <= end[left])
        count[left] -= 1
    require(behind == end)
    return True


def _timestamps(batch_headers: BatchHeaders, counts: Ints, elapsed: Ints) -> tuple[Ints, Ints]:
    times = elapsed + batch_headers["first_timestamp"].astype(np.int64).repeat(counts)
    appended = batch_headers["attributes"] & TIMESTAMP_TYPE != 0
    if not appended.any():
        return times, np.zeros(len(times), np.int64)
    kinds = appended.astype(np.int64).repeat(counts)
    newest = batch_headers["max_timestamp"].astype(np.int64)
    require(newest > -_ADDEND_MAX)
    return np.where(kinds, newest.repeat(counts), times), kinds


def _one_by_one(group: EntryGroup) -> Columns:
    records = list(group.records())
    spans: list[bytes] = []
    for record in records:
        spans += (record.key or b"", record.value or b"", encode_headers(record.headers))
    behind = np.cumsum(_column(map(len, spans)))
    begins = np.concatenate((np.zeros(1, np.int64), behind[:-1]))[: len(spans)]
    return Columns(
        group.next_offset,
        b"".join(spans),
        _column(record.offset for record in records),
        _column(record.timestamp for record in records),
        _column(record.timestamp_type for record in records),
        begins[0::3],
        _column(-1 if record.key is None else len(record.key) for record in records),
        begins[1::3],
        _column(-1 if record.value is None else len(record.value) for record in records),
        begins[2::3],
        any(record.headers for record in records),
    )


def _column(numbers: Iterable[int]) -> Ints:
    try:
        return np.fromiter(numbers, np.int64)
    except OverflowError:
        raise CorruptRecords("a number exceeds 64 bits") from None
