"""Uniform-run fast path: validates consecutive records by comparison with a validated one.

The records of a run have equal lengths, structural bytes and sizes of timestamp deltas. Offset deltas rise by one. So
each is as valid as the first. A column is the bytes at one place of all records: a slice of a `memoryview` with a
stride, without a copy:

         | length | attributes | timestamp | offset | key length | key | value length | value | headers
    0    |  same  |    same    |   size    | rising |    same    |     |     same     |       |   same
    1    |  same  |    same    |   size    | rising |    same    |     |     same     |       |   same

A constant column equals itself shifted by one.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.records.model import Buffer, view
from pylogbroker.records.validate.time_deltas import UP_TO, largest_as_claimed, largest_in_column, largest_in_columns
from pylogbroker.records.varint import decode_varint

_FIRST_RECORDS: Final = 128  # each further comparison takes ten times as many
_FACTOR: Final = 10
_TIME_BYTES_MAX: Final = 8  # longer deltas need another check
_HIGH: Final = bytes(range(0x80, 0x100))

# Bytes of offset deltas: the only byte of short ones; of longer ones the first byte, a second byte that continues, and
# a last second byte. They repeat after 64 or 8192 deltas; further bytes are constant for 8192 deltas.
_BLOCK: Final = 8192
_ONLY: Final = bytes(range(0, 0x80, 2))
_FIRST: Final = bytes(range(0x80, 0x100, 2)) * (_BLOCK // 64 + 1)
_SECOND: Final = b"".join(bytes([byte]) * 64 for byte in range(0x80, 0x100))
_LAST: Final = b"".join(bytes([byte]) * 64 for byte in range(0x80))

_Rising = list[tuple[int, bytes, int]]
Shape = tuple[int, int, list[int], range, _Rising]
"""Start and length of a record; places of constant bytes; places of its timestamp delta; changing bytes of its offset
delta: place, table of values, and number of deltas after which the table repeats.
"""

Places = tuple[int, int, int, int, int, int, int, int]


def measure_run(data: Buffer, places: Places, stride: int, delta: int, limit: int, claimed: int) -> tuple[int, int]:
    """Return how many of the next `limit` records have the shape of the one at `places`.

    That record has `stride` bytes and offset delta `delta`. All `limit` records must lie within `data`. Return their
    largest timestamp delta, too, as a zigzag number, or a smaller one if it is below `claimed`.
    """
    shape = _shape(data, places, stride)
    if len(shape[3]) > _TIME_BYTES_MAX:
        return 0, -1
    rows = view(data)
    limit = min(limit, _deltas_until_wider(delta) - 1)
    count, size, largest = 0, _FIRST_RECORDS, -1
    while count < limit:
        if 2 * size >= limit - count:  # a comparison of few records costs as much as a few more records
            size = limit - count
        uniform, among_uniform = _count_uniform(rows[count * stride :], shape, delta + count, size, claimed)
        if among_uniform > largest:
            largest = among_uniform
        count += uniform
        if uniform < size:
            break
        size *= _FACTOR
    return count, largest


def _count_uniform(rows: memoryview, shape: Shape, delta: int, count: int, claimed: int) -> tuple[int, int]:
    """Return how many of `count` records after the first have its shape; 0 if a comparison is not enough.

    The second result is as in `measure_run`.
    """
    start, stride, same, times, rising = shape
    stop = start + count * stride
    above, below = rows[:stop], rows[stride : stop + stride]
    for place in same:
        if above[place::stride] != below[place::stride]:
            differing = below[place::stride].tobytes().lstrip(rows[place : place + 1])
            return _count_uniform(rows, shape, delta, count - len(differing), claimed)
    for place, table, period in rising:
        at = (delta + 1) % period
        if below[place::stride] != table[at : at + count]:
            return 0, -1
    deltas = below[times[-1] :: stride].tobytes()
    if len(times) == 1 and 0 <= claimed < 0x80 and not deltas.translate(None, UP_TO[claimed]):
        return count, claimed if claimed in deltas else -1
    if not count or not deltas.isascii():
        return 0, -1
    if len(times) == 1:
        return count, largest_in_column(deltas)
    columns = [below[place::stride].tobytes() for place in times[:-1]]
    for column in columns:
        if column.translate(None, _HIGH):
            return 0, -1
    columns.append(deltas)
    largest = largest_as_claimed(columns, claimed)
    return count, largest_in_columns(columns) if largest is None else largest


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
    count, behind = decode_varint(data, position)
    same += range(position + 1, behind)
    for _ in range(2 * count):
        position = behind
        size, behind = decode_varint(data, position)
        same += range(position, behind)
        behind += max(size, 0)


def _deltas_until_wider(delta: int) -> int:
    """Return for how many offset deltas, this one included, only bytes in the tables change."""
    return 64 - delta if delta < 64 else _BLOCK - delta % _BLOCK
