"""Records of many batches as columns, for compaction.

If lengths and counts disagree, records are read one by one to find the damaged batch.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from pylogbroker.errors import CorruptRecords
from pylogbroker.records.columnar.record_starts import RecordPositions, find_records
from pylogbroker.records.columnar.varints import Bytes, Flags, Ints, NotUniform, raw_varints, signed
from pylogbroker.records.varint import decode_varint
from pylogbroker.storage.compaction.blocks import DamagedEntry

_OFFSET_DELTA_BITS: Final = 32
_VARINT_BYTES_MAX: Final = 9  # of `raw_varints`


@attrs.frozen(eq=False, repr=False)
class RecordColumns:
    """`data` is padded."""

    data: Bytes
    batch: Ints  # number of the batch
    start: Ints
    end: Ints
    timestamp_delta: Ints
    offset_delta_at: Ints
    offset_delta: Ints
    key_length_at: Ints

    def __len__(self) -> int:
        return len(self.start)


@attrs.frozen(eq=False, repr=False)
class Keys:
    """A length of -1 is null."""

    data: Bytes
    start: Ints
    length: Ints

    def some(self, chosen: Ints | Flags) -> Keys:
        return Keys(self.data, self.start[chosen], self.length[chosen])


def read_columns(data: Bytes, numbers: Ints, begins: Ints, ends: Ints, counts: Ints) -> RecordColumns:
    """Return the records of the batches `numbers` with payloads from `begins` to `ends`.

    Raise DamagedEntry if they contradict the headers.
    """
    _require((counts > 0) | ((counts == 0) & (begins == ends)), numbers, "not as many records as the header says")
    filled = counts > 0
    if not filled.all():
        numbers, begins, ends, counts = numbers[filled], begins[filled], ends[filled], counts[filled]
    if not len(numbers):
        return RecordColumns(data, *[np.empty(0, np.int64)] * 7)
    try:
        positions = find_records(data, data.data, begins, ends, counts)
    except NotUniform:
        positions = _find_one_by_one(data.data, numbers, begins, ends, counts)
    batch = np.repeat(numbers, counts)
    _require(positions.key_length_at < positions.end, batch, "a record ends within its fields")
    return RecordColumns(
        data,
        batch,
        positions.start,
        positions.end,
        positions.timestamp_delta,
        positions.offset_delta_at,
        positions.offset_delta,
        positions.key_length_at,
    )


def read_keys(rows: RecordColumns, chosen: Ints | slice = slice(None)) -> Keys:
    at, batch, end = rows.key_length_at[chosen], rows.batch[chosen], rows.end[chosen]
    try:
        raw, start = raw_varints(rows.data, at)
    except NotUniform:
        goes_on = [rows.data.take(at + index, mode="clip") > 0x7F for index in range(_VARINT_BYTES_MAX)]
        _require(~np.logical_and.reduce(goes_on), batch, "a key's length is not a valid number")
        raise
    length = signed(raw)
    _require((length >= -1) & (start + np.maximum(length, 0) < end), batch, "a key is longer than its record")
    return Keys(rows.data, start, length)


def has_value(keys: Keys) -> Flags:
    """Check the byte after the key: a length of -1 is encoded as 1."""
    flags: Flags = keys.data[keys.start + np.maximum(keys.length, 0)] != 1
    return flags


def words(data: Bytes, kind: Any = "<u8") -> npt.NDArray[Any]:
    """Return the word that begins at each byte, except the last ones."""
    return np.ndarray((len(data) - 8,), kind, data, strides=(1,))


def _find_one_by_one(raw: memoryview, numbers: Ints, begins: Ints, ends: Ints, counts: Ints) -> RecordPositions:
    rows: list[tuple[int, ...]] = []
    batches = zip(numbers.tolist(), begins.tolist(), ends.tolist(), counts.tolist(), strict=True)
    for number, position, stop, count in batches:
        try:
            for _ in range(count):
                length, body = decode_varint(raw, position)
                end = body + length
                timestamp_delta, offset_delta_at = decode_varint(raw, body + 1)
                offset_delta, key_length_at = decode_varint(raw, offset_delta_at)
                if not key_length_at < end <= stop or (offset_delta + (1 << 31)) >> _OFFSET_DELTA_BITS:
                    raise CorruptRecords("a record that does not fit its batch")
                rows.append((position, end, timestamp_delta, offset_delta_at, offset_delta, key_length_at))
                position = end
            if position != stop:
                raise CorruptRecords("the records do not fill their batch")
        except CorruptRecords as error:
            raise DamagedEntry(number, error.detail) from None
    return RecordPositions(*np.array(rows, np.int64).T)


def _require(good: Flags, batch: Ints, what: str) -> None:
    if not good.all():
        raise DamagedEntry(int(batch[np.flatnonzero(~good)[0]]), what)
