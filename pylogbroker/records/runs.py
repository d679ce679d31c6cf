"""Runs: records one behind the other that look like a first one, which has been checked.

They are as long, and all bytes that tell lengths are the same, at the same places; the timestamp deltas take as many
bytes; the offset deltas go up by one.  So they are as right as the first one is.  Those places, for all records of a
run, are columns, and a slice with a stride is a column:

         | length | attributes | timestamp | offset | key length | key | value length | value | headers
    0    |  same  |    same    |   size    | rising |    same    |     |     same     |       |   same
    1    |  same  |    same    |   size    | rising |    same    |     |     same     |       |   same
    ...

A column in which all is the same is the same as itself without its first byte.  Slices of a `memoryview` copy nothing.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.records.buffers import Buffer, view
from pylogbroker.records.varint import decode_varint

_FIRST_TRY: Final = 128  # records that are compared at first; then ten times as many, and so on
_FACTOR: Final = 10
_WIDEST_TIME: Final = 8  # bytes of a timestamp delta; whether longer ones are too large is not seen from here
_HIGH: Final = bytes(range(0x80, 0x100))

# The bytes of offset deltas: those of one byte; and of longer ones the first, the second, and the second that is last.
# They repeat after 64 or 8192 deltas; what further bytes there are is the same for 8192 deltas.
_BLOCK: Final = 8192
_ONLY: Final = bytes(range(0, 0x80, 2))
_FIRST: Final = bytes(range(0x80, 0x100, 2)) * (_BLOCK // 64 + 1)
_SECOND: Final = b"".join(bytes([byte]) * 64 for byte in range(0x80, 0x100))
_LAST: Final = b"".join(bytes([byte]) * 64 for byte in range(0x80))

Rising = list[tuple[int, bytes, int]]
Shape = tuple[int, int, list[int], range, Rising]
"""Where a record begins, and how long it is; places of bytes that are the same, of a timestamp delta, and of the bytes
of an offset delta that change, each with the table of what they go through and after how many deltas it repeats."""

Places = tuple[int, int, int, int, int, int, int, int]
"""Where begin: a record, its timestamp delta, offset delta, key's length, key, value's length, value, headers."""


def measure_run(data: Buffer, places: Places, stride: int, delta: int, limit: int) -> int:
    """How many of the next `limit` records, all within `data`, look like that at `places`, with offset `delta`.

    That one takes `stride` bytes.
    """
    shape = _shape(data, places, stride)
    if len(shape[3]) > _WIDEST_TIME:
        return 0
    rows = view(data)
    limit = min(limit, _deltas_alike(delta) - 1)
    found, size = 0, _FIRST_TRY
    while found < limit:
        size = min(size, limit - found)
        alike = _count_alike(rows[found * stride :], shape, delta + found, size)
        found += alike
        if alike < size:
            break
        size *= _FACTOR
    return found


def _count_alike(rows: memoryview, shape: Shape, delta: int, count: int) -> int:
    """How many of `count` records behind the first are like that; 0 if they can't easily be counted."""
    start, stride, same, times, rising = shape
    stop = start + count * stride
    above, below = rows[:stop], rows[stride : stop + stride]
    for place in same:
        if above[place::stride] != below[place::stride]:
            differing = below[place::stride].tobytes().lstrip(rows[place : place + 1])
            return _count_alike(rows, shape, delta, count - len(differing))
    if not below[times[-1] :: stride].tobytes().isascii():
        return 0
    for place in times[:-1]:
        if below[place::stride].tobytes().translate(None, _HIGH):
            return 0
    for place, table, period in rising:
        at = (delta + 1) % period
        if below[place::stride] != table[at : at + count]:
            return 0
    return count


def _shape(data: Buffer, places: Places, stride: int) -> Shape:
    start, time_at, offset_at, key_at, key, value_at, value, headers_at = places
    same = [*range(start, time_at), *range(key_at, key), *range(value_at, value), headers_at]
    if data[headers_at]:
        _note_headers(data, headers_at, same)
    if key_at - offset_at == 1:
        rising = [(offset_at, _ONLY, 64)]
    else:
        second = _LAST if key_at - offset_at == 2 else _SECOND
        rising = [(offset_at, _FIRST, 64), (offset_at + 1, second, _BLOCK)]
        same += range(offset_at + 2, key_at)
    return start, stride, same, range(time_at, offset_at), rising


def _note_headers(data: Buffer, position: int, same: list[int]) -> None:
    """Add where the number of headers, the first byte of which is noted, and the lengths in them stand."""
    count, behind = decode_varint(data, position)
    same += range(position + 1, behind)
    for _ in range(2 * count):
        position = behind
        size, behind = decode_varint(data, position)
        same += range(position, behind)
        behind += max(size, 0)


def _deltas_alike(delta: int) -> int:
    """How many offset deltas, from this one on, differ in the bytes of the tables alone."""
    return 64 - delta if delta < 64 else _BLOCK - delta % _BLOCK
