"""Batch shape cache: validates small uniform batches by comparison with validated ones.

Batches with equal numbers of records and bytes mostly have equal shapes. Structural bytes must equal the last such
batch's under a mask:

    length | attributes | timestamp delta     | offset delta | key length, key | value length, value | headers
     same  |    same    | as to bit 7 of each |     same     |      same       |        same         |  none

This takes a fifth of full validation (see `structure`). Other batches may be valid, too. The structural bytes contain
the timestamp deltas, of which the largest is found (see `time_deltas`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from pylogbroker.records.model import Buffer
from pylogbroker.records.validate.time_deltas import largest_in_column, largest_in_columns
from pylogbroker.records.varint import decode_varint

_RECORDS_MAX: Final = 64  # whose offset deltas take one byte
_SHAPES_MAX: Final = 512
_TIME_BYTES_MAX: Final = 8  # longer deltas need another check

_Extractor = Callable[[Buffer, int], tuple[bytes, ...]]
_BatchShape = tuple[_Extractor, bytes, int, int, int, range, int]
"""_Extractor of the structural bytes; their value if all timestamp deltas are 0; as large integers the mask, the masked
value, and 1 in each timestamp delta; places of the first timestamp delta; number of structural bytes of a record.
"""

_shapes: Final[dict[tuple[int, int], _BatchShape | None]] = {}
"""By number of records and bytes; None after a single such batch."""


def largest_if_known_shape(data: Buffer, count: int, position: int, claimed: int) -> int:
    """Return the largest timestamp delta as a zigzag number; negative if the shape is unknown or all deltas are.

    `claimed` makes it quick.
    """
    shape = _shapes.get((count, len(data) - position))
    if shape is None:
        return -1
    extract, timeless, mask, marks, ones, times, row = shape
    structural = b"".join(extract(data, position))
    if structural == timeless:
        return 0
    bits, deltas = int.from_bytes(structural, "big"), structural[times[0] :: row]
    if 0 < claimed < 0x80 and deltas.isascii() and bits + (0x7F - claimed) * ones & mask == marks and claimed in deltas:
        return claimed  # the sum makes larger deltas 0x80 or more
    if bits & mask != marks:
        return -1
    if len(times) == 1:
        return largest_in_column(deltas)
    return largest_in_columns([structural[place::row] for place in times])


def remember_shape(data: Buffer, count: int, position: int) -> None:
    size = len(data) - position
    if not 0 < count <= _RECORDS_MAX or size % count or data[position] != data[len(data) - size // count]:
        return  # too many, or of different lengths
    if (count, size) in _shapes:
        _shapes[count, size] = _shape_of(data, count, position, size // count)
    elif len(_shapes) < _SHAPES_MAX:
        _shapes[count, size] = None
    else:
        _shapes.clear()


def _shape_of(data: Buffer, count: int, position: int, stride: int) -> _BatchShape | None:
    _, attributes_at = decode_varint(data, position)
    _, offset_at = decode_varint(data, attributes_at + 1)
    size, key = decode_varint(data, offset_at + 1)
    value_at = key + max(size, 0)
    size, value = decode_varint(data, value_at)
    headers_at = value + max(size, 0)
    time = range(attributes_at + 1 - position, offset_at - position)
    is_usual = data[offset_at] == 0 == data[headers_at]  # a varint may spend several bytes on a zero
    if not is_usual or headers_at + 1 - position != stride or len(time) > _TIME_BYTES_MAX:
        return None
    row = bytes(data[position:key]) + bytes(data[value_at:value]) + b"\0"
    before, after = row[: time.stop], row[time.stop + 1 :]
    mask = int.from_bytes(bytes(0x80 if at in time else 0xFF for at in range(len(row))) * count, "big")
    ones = int.from_bytes(bytes(at in time for at in range(len(row))) * count, "big")
    rows = int.from_bytes(b"".join(before + bytes((2 * delta,)) + after for delta in range(count)), "big")
    timeless = (rows & ~(0x7F * ones)).to_bytes(len(row) * count, "big")
    extract = _extractor(count, key - position, value_at - key, value - value_at, headers_at - value)
    return extract, timeless, mask, rows & mask, ones, time, len(row)


def _extractor(count: int, head: int, key: int, length: int, value: int) -> _Extractor:
    """Return a function that extracts the bytes before keys, between keys and values, and after values."""

    def pieces(before: int) -> str:
        return f"{before}s{key}x{length}s{value}x" if key else f"{before + length}s{value}x"

    return struct.Struct(pieces(head) + pieces(1 + head) * (count - 1) + "1s").unpack_from
