"""Varints of format v2: zigzag (0, -1, 1, -2, ... become 0, 1, 2, 3, ...), then seven bits per byte.

    bit 7      another byte follows
    bits 0-6   the next seven bits, lowest first

An `int32` takes up to five bytes, an `int64` up to ten.
"""

from __future__ import annotations

from pylogbroker.errors import CorruptRecords
from pylogbroker.records.model import Buffer

_MAX_BITS = 64


def _encode(zigzag: int) -> bytes:
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


_SHORT_LIMIT = 1 << 14
_short = tuple(_encode(zigzag) for zigzag in range(1 << 7))
_short_limit = len(_short)


def encode_varint(value: int) -> bytes:
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    return _short[zigzag] if zigzag < _short_limit else _encode_longer(zigzag)


def _encode_longer(zigzag: int) -> bytes:
    """Make the table of two bytes at its first use: few brokers encode records, and it takes 0.7 MB and 3 ms."""
    global _short, _short_limit
    if _short_limit <= zigzag < _SHORT_LIMIT:
        _short = tuple(map(_encode, range(_SHORT_LIMIT)))
        _short_limit = _SHORT_LIMIT
    return _encode(zigzag)


def decode_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Return the varint at `position` and the next position; raise CorruptRecords if invalid."""
    try:
        raw = data[position]
    except IndexError:
        raise CorruptRecords("a varint begins beyond the end of the data") from None
    position += 1
    if raw > 0x7F:
        raw, position = continue_varint(data, position, raw)
    return (raw >> 1) ^ -(raw & 1), position


def continue_varint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Continue the varint with the `first` byte before `position`; the result is still zigzag."""
    raw = first & 0x7F
    shift = 7
    try:
        while True:
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= _MAX_BITS + 6:
                raise CorruptRecords("a varint is longer than ten bytes")
    except IndexError:
        raise CorruptRecords("a varint runs beyond the end of the data") from None
    if raw >> _MAX_BITS:
        raise CorruptRecords("a varint exceeds 64 bits")
    return raw, position
