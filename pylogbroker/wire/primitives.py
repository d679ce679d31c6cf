"""Primitives of variable size: unsigned varints, strings, UUIDs.

An unsigned varint has seven bits in each byte, lowest first; bit 7 is set in all bytes but the last. A 32-bit number
takes up to five bytes::

    300 = 0b10_0101100   ->   1_0101100  0_0000010

Names, ids and sizes recur in every request. So bounded dictionaries cache conversions, and the public functions are
subscripts of these: a known value costs no call.
"""

from collections.abc import Callable
from typing import Final, TypeVar
from uuid import UUID

from pylogbroker.wire.errors import WireError

STRING_BYTES_MAX: Final = 0x7FFF
"""Length that every version can carry; Kafka holds flexible versions to it, too."""

CACHED_ENTRIES_MAX: Final = 4096
_CACHED_SIZE_MAX: Final = 255

K = TypeVar("K", bound=bytes | str)
V = TypeVar("V")


class LookupCache(dict[K, V]):
    """Caches results of a function for short arguments."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> V:
        made = self._make(key)
        if len(key) <= _CACHED_SIZE_MAX:
            if len(self) >= CACHED_ENTRIES_MAX:
                self.clear()
            self[key] = made
        return made


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise WireError(f"a string is not UTF-8: {error}") from None


_texts: Final = LookupCache(_decoded)
_ids: Final[LookupCache[bytes, UUID]] = LookupCache(lambda raw: UUID(bytes=raw))

text: Final = _texts.__getitem__
"""String of UTF-8 bytes."""

identifier: Final = _ids.__getitem__
"""UUID of 16 bytes."""


class _Varints(dict[int, bytes]):
    def __missing__(self, number: int) -> bytes:
        made = bytes((number & 0x7F | 0x80,)) + self[number >> 7] if number > 0x7F else bytes((number,))
        if len(self) >= CACHED_ENTRIES_MAX:
            self.clear()
        self[number] = made
        return made


_varints: Final = _Varints()

uvarint: Final = _varints.__getitem__
"""Unsigned varint of a number below 2**32."""


def compact_size(size: int) -> bytes:
    """Encode a size plus one: 0 is null."""
    return uvarint(size + 1)


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    first = buffer[position]
    return (first, position + 1) if first < 0x80 else rest_of_uvarint(buffer, position + 1, first)


def rest_of_uvarint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """Continue a varint whose `first` byte, with bit 7 set, is before `position`."""
    byte = buffer[position]
    if byte < 0x80:
        return first - 0x80 | byte << 7, position + 1
    number = first & 0x7F | (byte & 0x7F) << 7
    for shift in (14, 21, 28):
        position += 1
        byte = buffer[position]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return _within_32_bits(number), position + 1
    raise WireError("a varint is longer than five bytes")


def _within_32_bits(number: int) -> int:
    if number > 0xFFFFFFFF:
        raise WireError("a varint exceeds 32 bits")
    return number
