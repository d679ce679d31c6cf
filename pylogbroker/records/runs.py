"""Runs: records one behind the other that look like a first one, which has been checked.

They are as long, and all bytes that tell lengths are the same, at the same places; the timestamp deltas take as many
bytes; the offset deltas go up by one.  So they are as right as the first one is.  Those places, for all records of a
run, are columns, and a slice with a stride is a column:

         | length | attributes | timestamp | offset | key length | key | value length | value | headers
    0    |  same  |   small    |   size    | rising |    same    |     |     same     |       |   same
    1    |  same  |   small    |   size    | rising |    same    |     |     same     |       |   same
    ...
"""

from __future__ import annotations

from typing import Final

from pylogbroker.records.varint import decode_varint

_FIRST_TRY: Final = 64  # records that are compared at first; then eight times as many, and so on
_FACTOR: Final = 8
_WIDEST_TIME: Final = 8  # bytes of a timestamp delta; whether longer ones are too large is not seen from here
_HIGH: Final = bytes(range(0x80, 0x100))

# The bytes of offset deltas: those of one byte; and of longer ones the first, the second, and the second that is last.
# They repeat after 64 or 8192 deltas; what further bytes there are is the same for 8192 deltas.
_BLOCK: Final = 8192
_ONLY: Final = bytes(range(0, 0x80, 2))
_FIRST: Final = bytes(range(0x80, 0x100, 2)) * (_BLOCK // 64 + 1)
_SECOND: Final = b"".join(bytes([byte]) * 64 for byte in range(0x80, 0x100))
_LAST: Final = b"".join(bytes([byte]) * 64 for byte in range(0x80))

Indexable = bytes | bytearray
Rising = list[tuple[int, bytes, int]]
Shape = tuple[list[int], range, Rising]
"""Places of bytes that are the same, of a timestamp delta, and of the bytes of an offset delta that change, each with
the table of what they go through and after how many deltas it repeats."""


def measure_run(data: Indexable, start: int, end: int, stride: int, delta: int, limit: int) -> int:
    """How many of `limit` records are like the one before them, at `start`, of `stride` bytes, with offset `delta`."""
    limit = min(limit, (end - start) // stride - 1, _deltas_alike(delta) - 1)
    shape = _shape(data, start)
    if len(shape[1]) > _WIDEST_TIME:
        return 0
    found, size = 0, _FIRST_TRY
    while found < limit:
        size = min(size, limit - found)
        alike = _count_alike(data, shape, stride, delta, found + 1, size)
        found += alike
        if alike < size:
            break
        size *= _FACTOR
    return found


def _count_alike(data: Indexable, shape: Shape, stride: int, delta: int, skipped: int, count: int) -> int:
    """How many of `count` records, `skipped` behind the first, are like that; 0 if they can't easily be counted."""
    same, times, rising = shape
    ahead = skipped * stride
    stop = same[0] + ahead + count * stride
    for place in same:
        column, byte = data[place + ahead : stop : stride], data[place]
        if column.count(byte) < count:
            count -= len(column.lstrip(bytes((byte,))))
            stop = same[0] + ahead + count * stride
    for place in (times[0] - 1, times[-1]):  # attributes, and where the timestamp delta ends
        if not data[place + ahead : stop : stride].isascii():
            return 0
    for place in times[:-1]:
        if data[place + ahead : stop : stride].translate(None, _HIGH):
            return 0
    delta += skipped
    for place, table, period in rising:
        at = delta % period
        if data[place + ahead : stop : stride] != table[at : at + count]:
            return 0
    return count


def _shape(data: Indexable, start: int) -> Shape:
    """Where the bytes stand that tell how the record at `start` looks."""
    position = _behind_varint(data, start)
    same = [*range(start, position)]
    times = range(position + 1, _behind_varint(data, position + 1))
    position = _behind_varint(data, times.stop)
    if position - times.stop == 1:
        rising = [(times.stop, _ONLY, 64)]
    else:
        second = _LAST if position - times.stop == 2 else _SECOND
        rising = [(times.stop, _FIRST, 64), (times.stop + 1, second, _BLOCK)]
        same += range(times.stop + 2, position)
    for _ in range(2):
        position = _note_field(data, position, same)
    if data[position]:
        _note_headers(data, position, same)
    else:
        same.append(position)
    return same, times, rising


def _behind_varint(data: Indexable, position: int) -> int:
    while data[position] > 0x7F:
        position += 1
    return position + 1


def _note_field(data: Indexable, position: int, same: list[int]) -> int:
    """Add where the length of a key or value stands; the position behind it all."""
    size, behind = decode_varint(data, position)
    same += range(position, behind)
    return behind + max(size, 0)


def _note_headers(data: Indexable, position: int, same: list[int]) -> None:
    count, behind = decode_varint(data, position)
    same += range(position, behind)
    for _ in range(2 * count):
        behind = _note_field(data, behind, same)


def _deltas_alike(delta: int) -> int:
    """How many offset deltas, from this one on, differ in the bytes of the tables alone."""
    return 64 - delta if delta < 64 else _BLOCK - delta % _BLOCK
