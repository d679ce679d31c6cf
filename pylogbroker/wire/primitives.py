"""The variable-size primitives: unsigned varints, strings and UUIDs.

An unsigned varint has seven bits of the number in each byte, the lowest first; all bytes but the last have
the high bit set.  Of a 32-bit number that makes five bytes at most::

    300 = 0b10_0101100   ->   1_0101100  0_0000010

Names of topics and clients and topic ids come again with each request, so their decoded forms are kept in
dictionaries of bounded size, and what is known already is looked up instead of being made.
"""

from typing import Final
from uuid import UUID

from pylogbroker.wire.errors import WireError

REMEMBERED: Final = 4096
REMEMBERED_SIZE: Final = 255

_texts: dict[bytes, str] = {}
_ids: dict[bytes, UUID] = {}


def text(raw: bytes) -> str:
    """The string of these UTF-8 bytes."""
    known = _texts.get(raw)
    if known is not None:
        return known
    try:
        made = raw.decode()
    except UnicodeDecodeError as error:
        raise WireError(f"a string is not UTF-8: {error}") from None
    if len(raw) <= REMEMBERED_SIZE:
        if len(_texts) >= REMEMBERED:
            _texts.clear()
        _texts[raw] = made
    return made


def identifier(raw: bytes) -> UUID:
    """The UUID of these 16 bytes."""
    known = _ids.get(raw)
    if known is not None:
        return known
    if len(_ids) >= REMEMBERED:
        _ids.clear()
    made = _ids[raw] = UUID(bytes=raw)
    return made


def _encode_uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SHORT_END: Final = 1 << 10
_SHORT: Final = tuple(_encode_uvarint(number) for number in range(_SHORT_END))


def uvarint(number: int) -> bytes:
    """A number from 0 to 2**32 - 1 as an unsigned varint."""
    return _SHORT[number] if number < _SHORT_END else _encode_uvarint(number)


def compact_size(size: int) -> bytes:
    """A size as compact fields encode it: one more than it is, so that null, -1, is 0."""
    return _SHORT[size + 1] if size < _SHORT_END - 1 else _encode_uvarint(size + 1)


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    """The unsigned varint at a position, and the position behind it."""
    first = buffer[position]
    return (first, position + 1) if first < 0x80 else rest_of_uvarint(buffer, position + 1, first)


def rest_of_uvarint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """The unsigned varint whose first byte, one with the high bit set, lies before a position."""
    number = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return _within_32_bits(number), position
    raise WireError("a varint is longer than five bytes")


def _within_32_bits(number: int) -> int:
    if number > 0xFFFFFFFF:
        raise WireError("a varint exceeds 32 bits")
    return number
