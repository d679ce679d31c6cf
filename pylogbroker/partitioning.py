"""Which partition something belongs to in Kafka: a hash, made positive, modulo the number of partitions.

What is remembered of a group or a transactional id lies where the absolute value of Java's hash of the id says; a
record with a key goes where the 32-bit MurmurHash2 of the key says, whose sign bit is cleared.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 1 << 31
_SHORT: Final = 100  # bytes


@lru_cache(maxsize=4096)
def partition_for(name: str, partitions: int) -> int:
    """The partition of the group or transaction of that name."""
    unsigned = java_hash(name)
    return min(unsigned, -unsigned & _MASK) % _SIGN % partitions  # Java has no 2^31, which is 0 there


def java_hash(text: str) -> int:
    """`java.lang.String.hashCode` as an unsigned 32-bit number: s[0]*31^(n-1) + ... + s[n-1] over UTF-16 units."""
    result = 0
    units = memoryview(text.encode("utf-16-le", "surrogatepass"))
    for position in range(0, len(units), 2):
        result = (31 * result + (units[position] | units[position + 1] << 8)) & 0xFFFFFFFF
    return result


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of records with that key. Keys tend to come again: the hashes of the last short ones are kept."""
    return ((_remembered(key) if len(key) <= _SHORT else murmur2(key)) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """MurmurHash2, by Austin Appleby, as an unsigned 32-bit number, with the seed that Kafka's producers have.

    Each 32-bit word, little-endian, is mixed and put into the hash; then the one to three bytes that are left; then the
    bits of the hash are mixed once more.
    """
    whole, left = divmod(len(data), 4)
    result = _SEED ^ len(data)
    for word in _words(whole).unpack_from(data):
        mixed = word * _M & _MASK
        result = (result * _M ^ (mixed ^ mixed >> 24) * _M) & _MASK
    if left:
        result = (result ^ int.from_bytes(data[-left:], "little")) * _M & _MASK
    result = (result ^ result >> 13) * _M & _MASK
    return result ^ result >> 15


_remembered = lru_cache(maxsize=16384)(murmur2)


@lru_cache(maxsize=256)
def _words(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I")
