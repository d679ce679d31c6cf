"""Records of many batches at once, as columns.

```
record: length varint | attributes int8 | timestamp delta varlong | offset delta varint
        | key length varint, key | value length varint, value | headers
```

A record's position is known only when the record before it has been read: each batch is a chain. The chains of many
batches are followed in parallel, one record of each per step. When few batches are left, their records are read one by
one.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from pylogbroker.records.varint import decode_varint
from pylogbroker.storage.compaction.blocks import PADDING, Bytes, DamagedEntry, Flags, Ints

_PARALLEL_MIN: Final = 64  # batches; with fewer, a step costs more than it saves
SMALLEST: Final = 7  # bytes of a record


@attrs.frozen(eq=False)
class RecordColumns:
    """Records in the order of their batches. `data` holds them, with padding."""

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


@attrs.frozen(eq=False)
class Keys:
    """Positions and lengths of keys; length -1 for null."""

    data: Bytes
    start: Ints
    length: Ints

    def some(self, chosen: Ints | Flags) -> Keys:
        return Keys(self.data, self.start[chosen], self.length[chosen])


def read_columns(data: Bytes, numbers: Ints, begins: Ints, ends: Ints, counts: Ints) -> RecordColumns:
    """Return the records of batches with these numbers and payloads from `begins` to `ends`.

    Raise DamagedEntry if the payloads are not the records that the headers promise.
    """
    _require((counts >= 0) & (counts * SMALLEST <= ends - begins), numbers, "fewer records than the header says")
    batch = np.repeat(numbers, counts)
    start, end = _bounds(data, numbers, begins, ends, counts)
    body = _skip_varint(data, start)
    timestamp_delta, second = varints(data, body + 1, batch, 64)
    offset_delta, third = varints(data, second, batch, 32)
    _require(third < end, batch, "a record ends within its fields")
    return RecordColumns(data, batch, start, end, timestamp_delta, second, offset_delta, third)


def read_keys(rows: RecordColumns, chosen: Ints | slice = slice(None)) -> Keys:
    """Return the keys of the chosen records."""
    batch, end = rows.batch[chosen], rows.end[chosen]
    length, position = varints(rows.data, rows.key_length_at[chosen], batch, 32)
    _require((length >= -1) & (position + np.maximum(length, 0) < end), batch, "a key is longer than its record")
    return Keys(rows.data, position, length)


def has_value(keys: Keys) -> Flags:
    """Return whether the records with these keys have values: a length of -1 is encoded as the byte 1."""
    flags: Flags = keys.data[keys.start + np.maximum(keys.length, 0)] != 1
    return flags


def varints(data: Bytes, position: Ints, batch: Ints, bits: int) -> tuple[Ints, Ints]:
    """Return the numbers at these positions, and the positions after them."""
    byte = data[position]
    raw = (byte & 0x7F).astype(np.uint64)
    behind = position + 1
    more = np.flatnonzero(byte > 0x7F)
    shift = 7
    while more.size:
        if shift >= bits:
            raise DamagedEntry(int(batch[more[0]]), "a varint is too long")
        byte = data[np.minimum(behind[more], len(data) - 1)]
        raw[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        behind[more] += 1
        more = more[byte > 0x7F]
        shift += 7
    return (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64), behind


def words(data: Bytes, kind: Any = "<u8") -> npt.NDArray[Any]:
    """Return the word that begins at each byte, except the last ones."""
    return np.ndarray((len(data) - 8,), kind, data, strides=(1,))


def _skip_varint(data: Bytes, position: Ints) -> Ints:
    """Return the positions after the lengths, which have been decoded before."""
    behind = position + 1
    more = np.flatnonzero(data[position] > 0x7F)
    while more.size:
        at = behind[more]
        behind[more] += 1
        more = more[data[at] > 0x7F]
    return behind


def _bounds(data: Bytes, numbers: Ints, begins: Ints, ends: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return start and end of each record."""
    behind = np.cumsum(counts)
    firsts = behind - counts
    total = int(behind[-1]) if len(behind) else 0
    start = np.empty(total, np.int64)
    end = np.empty(total, np.int64)
    order = np.argsort(-counts, kind="stable")
    left = np.searchsorted(-counts[order], -np.arange(1, int(counts.max(initial=0)) + 1), side="right")
    steps = int(np.count_nonzero(left >= _PARALLEL_MIN))
    position = begins.copy()
    _scan_parallel(data, numbers, ends, order, left[:steps], firsts, position, start, end)
    for index in order[: left[steps] if steps < len(left) else 0].tolist():
        first, last = int(firsts[index]) + steps, int(behind[index])
        bounds = _scan(data, int(position[index]), int(ends[index]), last - first, int(numbers[index]))
        start[first:last], end[first:last] = bounds[:-1], bounds[1:]
        position[index] = bounds[-1]
    _require(position == ends, numbers, "the records do not fill their batch")
    return start, end


def _scan_parallel(
    data: Bytes,
    numbers: Ints,
    ends: Ints,
    order: Ints,
    left: npt.NDArray[np.intp],
    firsts: Ints,
    position: Ints,
    start: Ints,
    end: Ints,
) -> None:
    """Read one record of each batch per step; `left` has the number of batches that have one, most records first."""
    window = words(data, "<u4")
    at, slot, limit = position[order], firsts[order], ends[order]
    for count in left.tolist():
        if count < len(at):
            position[order[count : len(at)]] = at[count:]
            at, slot, limit = at[:count], slot[:count], limit[:count]
        start[slot] = at
        at = _next_record(data, window, numbers[order[:count]], at)
        _require((at <= limit), numbers[order[:count]], "a record is longer than its batch")
        end[slot] = at
        slot = slot + 1
    position[order[: len(at)]] = at


def _next_record(data: Bytes, window: npt.NDArray[Any], numbers: Ints, at: Ints) -> Ints:
    """Return the positions after the records at these positions. Nearly all lengths take one or two bytes."""
    word = window[at]
    if (word & 0x8080 == 0x8080).any():
        length, behind = varints(data, at, numbers, 32)
        _require(length > 0, numbers, "a record without length")
        return behind + length
    two = (word >> 7) & 1
    raw = (word & 0x7F) | ((word >> 1) & 0x3F80) * two
    _require(raw & 1 == 0, numbers, "a record without length")
    return at + (raw >> 1).astype(np.int64) + two + 1


def _scan(data: Bytes, position: int, end: int, count: int, number: int) -> list[int]:
    """Return the bounds of `count` consecutive records."""
    raw = data.data[: end + PADDING // 2]
    bounds = [position]
    add = bounds.append
    for _ in range(count):
        byte = raw[position]
        if byte > 0x7F:
            second = raw[position + 1]
            if second > 0x7F:
                length, position = decode_varint(raw, position)
                byte = length << 1
            else:
                byte = byte & 0x7F | second << 7
                position += 2
        else:
            position += 1
        position += byte >> 1
        if byte & 1 or position > end or byte < 0:
            raise DamagedEntry(number, "a record is longer than its batch")
        add(position)
    return bounds


def _require(good: Flags, batch: Ints, what: str) -> None:
    if not good.all():
        raise DamagedEntry(int(batch[np.flatnonzero(~good)[0]]), what)
