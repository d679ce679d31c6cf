"""Bytes of the log, as a broker sends them, to columns: offsets, timestamps, and where keys and values are.

    for columns in decode(fetched):
        columns.offsets, columns.timestamps           int64
        columns.keys(), columns.values()              lists of bytes or None
        columns.data, columns.value_starts, ...       the same as spans, for who copies them elsewhere at once

All records of a piece are decoded together, field by field.  What adds up, for each record and each batch, is right;
what does not add up is decoded once more one by one, which finds out what is wrong.  So the errors, and what is taken
for one, are those of `Entry.records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs
import numpy as np

from pylogbroker.errors import CorruptRecords, PylogbrokerError
from pylogbroker.records.batch import encode_headers, read_headers
from pylogbroker.records.buffers import Buffer
from pylogbroker.records.columns.aborted import AbortedTransactions
from pylogbroker.records.columns.pieces import Piece, pieces
from pylogbroker.records.columns.varints import Bytes, Flags, Ints, Unsure, raw_varints, signed, starts
from pylogbroker.records.compression import MAX_DECOMPRESSED
from pylogbroker.records.model import Header

_SMALLEST: Final = 7  # bytes of a record
_LARGE: Final = 1 << 32  # what no length or offset delta, still zigzag, comes to
_MANY_HEADERS: Final = 64  # of a record, each of which costs a step for all
_FAR: Final = 1 << 61  # what is nearer to 0 may be added to any varint of nine bytes


@attrs.define(eq=False)
class Columns:
    """Records.  Of what is null the length is -1."""

    next_offset: int
    """What to go on with: behind the last batch, which may be further than behind the last record."""

    raw: bytes
    offsets: Ints
    timestamps: Ints
    timestamp_types: Ints
    key_starts: Ints
    key_lengths: Ints
    value_starts: Ints
    value_lengths: Ints
    header_starts: Ints
    has_headers: bool

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def data(self) -> Bytes:
        """What the spans are of."""
        return np.frombuffer(self.raw, np.uint8)

    def keys(self) -> list[bytes | None]:
        return self._spans(self.key_starts, self.key_lengths)

    def values(self) -> list[bytes | None]:
        return self._spans(self.value_starts, self.value_lengths)

    def headers(self) -> list[tuple[Header, ...]]:
        if not self.has_headers:
            return [()] * len(self)
        return [read_headers(self.raw, start)[0] for start in self.header_starts.tolist()]

    def some(self, chosen: Flags | slice) -> Columns:
        """The chosen ones."""
        return attrs.evolve(self, **{name: getattr(self, name)[chosen] for name in _COLUMNS})

    def _spans(self, begins: Ints, lengths: Ints) -> list[bytes | None]:
        raw = self.raw
        if lengths.min(initial=0) < 0:
            bounds = zip(begins.tolist(), lengths.tolist(), strict=True)
            return [None if length < 0 else raw[start : start + length] for start, length in bounds]
        return [raw[start:end] for start, end in zip(begins.tolist(), (begins + lengths).tolist(), strict=True)]


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
    limit: int = MAX_DECOMPRESSED,
    check: bool = True,
) -> Iterator[Columns]:
    """The records in `buffer` from `first_offset` on, of whatever format, some megabytes of them at a time.

    Markers, data of aborted transactions and an entry that is cut off at the end are left out.  CorruptRecords at what
    is damaged, InvalidRecords for an unknown codec, when what comes before has been taken.  Unless
    `check`, checksums are not looked at.
    """
    return columns_from(pieces(buffer, aborted, limit=limit, check=check), first_offset)


def columns_from(found: Iterable[Piece], first_offset: int) -> Iterator[Columns]:
    """The records of pieces, from an offset on."""
    for piece in found:
        for columns in columns_of(piece):
            early = columns.offsets < first_offset
            yield columns.some(~early) if early.any() else columns


def columns_of(piece: Piece) -> Iterator[Columns]:
    """One for the piece, or if something about it is unusual, one for each of its entries."""
    try:
        columns = _together(piece) if piece.is_v2 else _plain(piece)
    except (Unsure, PylogbrokerError):
        for single in piece.singles():
            yield _one_by_one(single)
    else:
        yield columns


def _plain(piece: Piece) -> Columns:
    """Messages that are not compressed; of others nobody knows how much is in them."""
    _require(_column(entry.count for entry in piece.entries) >= 0)
    return _one_by_one(piece)


def _together(piece: Piece) -> Columns:
    """The records of v2 batches; Unsure if something does not add up."""
    entries = piece.entries
    raw = b"".join(piece.payloads)
    counts = _column(entry.count for entry in entries)
    ends = np.cumsum(_column(len(payload) for payload in piece.payloads))
    begins = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    _require((counts > 0) & (counts <= (ends - begins) // _SMALLEST))
    bases = _column(entry.base_offset for entry in entries)
    firsts = _column(entry.first_timestamp for entry in entries)
    _require((np.maximum(bases, firsts) < _FAR) & (np.minimum(bases, firsts) > -_FAR))
    return _rows(piece, raw, begins, ends, counts, bases, firsts)


def _rows(piece: Piece, raw: bytes, begins: Ints, ends: Ints, counts: Ints, bases: Ints, firsts: Ints) -> Columns:
    data = np.frombuffer(raw, np.uint8)
    start = starts(data, raw, begins, ends, counts)
    length, body = raw_varints(data, start)
    end = np.append(start[1:], ends[-1])
    _require((length & 1 == 0) & (length < _LARGE))
    _require(body + (length >> 1) == end)
    elapsed, at = raw_varints(data, body + 1)
    delta, at = raw_varints(data, at)
    key_start, key_length, at = _field(data, at)
    value_start, value_length, at = _field(data, at)
    has_headers = _check_headers(data, at, end)
    _require(delta < _LARGE)
    times, kinds = _timestamps(piece, elapsed, counts, firsts)
    offsets = signed(delta) + np.repeat(bases, counts)
    return Columns(
        piece.next_offset, raw, offsets, times, kinds, key_start, key_length, value_start, value_length, at, has_headers
    )


def _field(data: Bytes, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Where keys or values begin, how long they are, and where they end."""
    size, start = raw_varints(data, at)
    _require(size < _LARGE)
    null = size & 1
    length = size >> 1
    if not null.any():
        return start, length, start + length
    length *= 1 - null
    return start, length - null, start + length


def _check_headers(data: Bytes, at: Ints, end: Ints) -> bool:
    """Whether some records have headers; Unsure unless they fill their records."""
    some = np.flatnonzero(data.take(at, mode="clip"))
    if not some.size:
        _require(at + 1 == end)
        return False
    count, behind = raw_varints(data, at)
    _require((count & 1 == 0) & (count <= _MANY_HEADERS << 1))
    count >>= 1
    while (left := np.flatnonzero(count)).size:
        size, key = raw_varints(data, behind[left])
        _require((size & 1 == 0) & (size < _LARGE))
        _, _, behind[left] = _field(data, key + (size >> 1))
        _require(behind[left] <= end[left])
        count[left] -= 1
    _require(behind == end)
    return True


def _timestamps(piece: Piece, elapsed: Ints, counts: Ints, firsts: Ints) -> tuple[Ints, Ints]:
    times = signed(elapsed) + np.repeat(firsts, counts)
    kinds = np.repeat(_column(entry.timestamp_type for entry in piece.entries), counts)
    if kinds.any():
        newest = _column(entry.max_timestamp for entry in piece.entries)
        _require(newest > -_FAR)
        times = np.where(kinds, np.repeat(newest, counts), times)
    return times, kinds


def _one_by_one(piece: Piece) -> Columns:
    """The records, as they are decoded without columns."""
    records = list(piece.records())
    spans: list[bytes] = []
    for record in records:
        spans += (record.key or b"", record.value or b"", encode_headers(record.headers))
    behind = np.cumsum(_column(map(len, spans)))
    begins = np.concatenate((np.zeros(1, np.int64), behind[:-1]))[: len(spans)]
    return Columns(
        piece.next_offset,
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


def _require(good: Flags) -> None:
    if not good.all():
        raise Unsure
