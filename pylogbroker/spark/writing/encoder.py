"""Encode Arrow columns as record batches, without an object per record.

    records   | length, 0, 0, offset delta, key length | key | value length | value | headers |
    made of          numbers, written together                  numbers                its own column

A batch's records have its creation time: timestamp deltas are 0. Arrow joins numbers, as binary columns, with keys and
values. Batches are slices of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pylogbroker.errors import InvalidRecords
from pylogbroker.records.compression import compress
from pylogbroker.records.model import Buffer, Codec
from pylogbroker.spark.writing.encoded import OVERHEAD, Encoded

Numbers = npt.NDArray[np.int64]

_DELTA_BYTES_MAX: Final = 4
_STEP_BYTES_MAX: Final = 1 << 30  # Arrow's binary columns hold 2^31


@attrs.frozen
class Packing:
    largest: int
    """Of an uncompressed batch; a larger record is a batch of its own."""

    codec: Codec = Codec.NONE
    level: int | None = None


@attrs.frozen
class BinaryColumns:
    """Columns of equal length; None if no record has a key or headers."""

    values: pa.BinaryArray
    keys: pa.BinaryArray | None = None
    headers: pa.BinaryArray | None = None

    sizes: Numbers = attrs.field(default=attrs.Factory(lambda rows: _sizes(rows), takes_self=True), eq=False)
    """Maximum bytes of each record."""

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: npt.NDArray[Any]) -> BinaryColumns:
        numbers = pa.array(rows)
        return self._each(lambda column: column.take(numbers), self.sizes[rows])

    def slice(self, start: int, count: int) -> BinaryColumns:
        return self._each(lambda column: column.slice(start, count), self.sizes[start : start + count])

    def _each(self, work: Callable[[pa.BinaryArray], pa.BinaryArray], sizes: Numbers) -> BinaryColumns:
        keys, headers = (None if column is None else work(column) for column in (self.keys, self.headers))
        return BinaryColumns(work(self.values), keys, headers, sizes)


def encode(rows: BinaryColumns, runs: Sequence[int], packing: Packing, timestamp: int) -> Iterator[tuple[int, Encoded]]:
    """Yield batches with their first row's index; none spans the start of a run."""
    sizes = rows.sizes
    starts = _starts(sizes, runs, packing.largest - OVERHEAD)
    ends = [*starts[1:], len(rows)]
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(before[ends], before[starts[first]] + _STEP_BYTES_MAX, side="right"))
        last = max(last, first + 1)
        some = slice(first, last)
        yield from _batches(rows, starts[some], ends[some], packing, timestamp)
        first = last


def _batches(
    rows: BinaryColumns, starts: list[int], ends: list[int], packing: Packing, timestamp: int
) -> Iterator[tuple[int, Encoded]]:
    origin = starts[0]
    counts = np.subtract(ends, starts)
    deltas = np.arange(ends[-1] - origin) - np.repeat(np.subtract(starts, origin), counts)
    joined = _joined(rows.slice(origin, len(deltas)), deltas)
    offsets, data = _offsets(joined), memoryview(joined.buffers()[2])
    for start, end in zip(starts, ends, strict=True):
        records: Buffer = data[int(offsets[start - origin]) : int(offsets[end - origin])]
        if packing.codec is not Codec.NONE:
            records = compress(packing.codec, records, packing.level)
        yield start, Encoded(records, end - start, timestamp, packing.codec)


def _sizes(rows: BinaryColumns) -> Numbers:
    total: Numbers = np.full(len(rows), 2 + _DELTA_BYTES_MAX + 1, np.int64)
    for column in (rows.keys, rows.values):
        size = _uniform(np.zeros(1, np.int64) if column is None else lengths(column))
        total += np.maximum(size, 0) + _varint_sizes(_zigzag(size))
    if rows.headers is not None:
        total += lengths(rows.headers)
    return total + _varint_sizes(_zigzag(total))


def _starts(sizes: Numbers, runs: Sequence[int], largest: int) -> list[int]:
    behind = np.cumsum(sizes)
    starts: list[int] = []
    for run, end in zip(runs, [*runs[1:], len(sizes)], strict=True):
        start = run
        while start < end:
            starts.append(start)
            before = int(behind[start - 1]) if start else 0
            start = max(start + 1, int(np.searchsorted(behind, before + largest, side="right")))
    return starts


def _joined(rows: BinaryColumns, deltas: Numbers) -> pa.BinaryArray:
    key_lengths = np.full(1, -1, np.int64) if rows.keys is None else _uniform(lengths(rows.keys))
    value_lengths = _uniform(lengths(rows.values))
    tails = pa.scalar(b"\0") if rows.headers is None else rows.headers
    numbers = [_zigzag(deltas), _zigzag(key_lengths), _zigzag(value_lengths)]
    size: Numbers = 2 + sum(map(_varint_sizes, numbers)) + np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    size += 1 if rows.headers is None else lengths(rows.headers)
    zero = np.zeros(1, np.int64)
    head = [_zigzag(size), zero, zero, *numbers[:2]]
    if rows.keys is None:
        return pc.binary_join_element_wise(_varints([*head, numbers[2]]), _filled(rows.values), tails, b"")
    behind_keys = _varints(numbers[2:])
    between = behind_keys if len(behind_keys) > 1 else behind_keys[0]
    parts = (_varints(head), _filled(rows.keys), between, _filled(rows.values), tails)
    return pc.binary_join_element_wise(*parts, b"")


def header_bytes(column: pa.ListArray) -> pa.BinaryArray | None:
    """Encode lists of headers as header sections; None without headers."""
    counts = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    if not counts.any():
        return None
    keys, values = column.flatten().flatten()
    if keys.null_count:
        raise InvalidRecords("a header has no key: only header values may be null")
    keys, values = as_binary(keys), as_binary(values)
    parts = _varints([_zigzag(lengths(keys))]), keys, _varints([_zigzag(lengths(values))]), _filled(values)
    encoded = pc.binary_join_element_wise(*parts, b"")
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    offsets = np.ascontiguousarray(_offsets(encoded)[ends])
    buffers = [None, pa.py_buffer(offsets), encoded.buffers()[2]]
    lists = pa.Array.from_buffers(pa.binary(), len(column), buffers)
    return pc.binary_join_element_wise(_varints([_zigzag(counts)]), lists, b"")


def as_binary(column: pa.Array) -> pa.BinaryArray:
    """Convert to 32-bit offsets."""
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def lengths(column: pa.BinaryArray) -> Numbers:
    """Return -1 for null."""
    sizes: Numbers = np.diff(_offsets(column)).astype(np.int64)
    if column.null_count:
        sizes[np.asarray(column.is_null())] = -1
    return sizes


def starts_of(column: pa.BinaryArray) -> Numbers:
    return _offsets(column)[:-1].astype(np.int64)


def data_of(column: pa.BinaryArray) -> npt.NDArray[np.uint8]:
    buffer = column.buffers()[2]
    return np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _offsets(column: pa.BinaryArray) -> npt.NDArray[np.int32]:
    if not len(column):
        return np.zeros(1, np.int32)
    return np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset)


def _filled(column: pa.BinaryArray) -> pa.BinaryArray:
    return pc.fill_null(column, b"") if column.null_count else column


def _uniform(numbers: Numbers) -> Numbers:
    return numbers[:1] if len(numbers) and numbers.min() == numbers.max() else numbers


def _zigzag(numbers: Numbers) -> Numbers:
    doubled: Numbers = numbers << 1
    return doubled ^ (numbers >> 63) if len(numbers) and numbers.min() < 0 else doubled


def _varint_sizes(numbers: Numbers) -> Numbers:
    sizes: Numbers = np.ones(len(numbers), np.int64)
    most = int(numbers.max()) if len(numbers) else 0
    bound = 1 << 7
    while bound <= most:
        sizes += numbers >= bound
        bound <<= 7
    return sizes


def _varints(columns: Sequence[Numbers]) -> pa.BinaryArray:
    """Encode rows of numbers; a column of length 1 applies to all."""
    rows = max(map(len, columns))
    sizes = [_varint_sizes(column) for column in columns]
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(np.broadcast_to(sum(sizes), rows), out=offsets[1:])
    data = np.zeros(int(offsets[-1]), np.uint8)
    at = offsets[:-1].copy()
    for column, size in zip(columns, sizes, strict=True):
        _write(data, at, column, size)
        at += size
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def _write(data: npt.NDArray[np.uint8], at: Numbers, numbers: Numbers, sizes: Numbers) -> None:
    """Write varints into zeros: 7 bits per byte, least significant first; bit 7 marks a continuation."""
    if not numbers.any():
        return
    least, most = int(sizes.min()), int(sizes.max())
    if most == 1:
        data[at] = numbers
        return
    data[at] = (numbers & 0x7F) | (0x80 if least > 1 else (sizes > 1) << 7)
    if least == most == 2:
        data[at + 1] = numbers >> 7
        return
    for byte in range(1, most):
        some = np.flatnonzero(np.broadcast_to(sizes > byte, len(at)))
        more = numbers[some] if len(numbers) > 1 else numbers
        size = sizes[some] if len(sizes) > 1 else sizes
        data[at[some] + byte] = ((more >> 7 * byte) & 0x7F) | ((size > byte + 1) << 7)
