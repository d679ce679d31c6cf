"""Kafka's assignment of keys and ids to partitions: a non-negative hash, modulo the number of partitions.

A group or transactional id goes to a coordinator partition by the absolute value of its Java string hash. A record with
a key goes to a partition by the 32-bit MurmurHash2 of the key, with the sign bit cleared.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

__all__ = ["java_hash", "murmur2", "partition_for", "partition_of_key"]

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 1 << 31
_CACHED_KEY_BYTES_MAX: Final = 100


@lru_cache(maxsize=4096)
def partition_for(name: str, partitions: int) -> int:
    unsigned = java_hash(name)
    return min(unsigned, -unsigned & _MASK) % _SIGN % partitions  # Kafka's `abs` maps Java's smallest int to 0


def java_hash(text: str) -> int:
    """Return `java.lang.String.hashCode`, unsigned: s[0]*31^(n-1) + s[1]*31^(n-2) + ... + s[n-1] over UTF-16 units."""
    result = 0
    units = memoryview(text.encode("utf-16-le", "surrogatepass"))
    for position in range(0, len(units), 2):
        result = (31 * result + (units[position] | units[position + 1] << 8)) & 0xFFFFFFFF
    return result


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key. Keys tend to repeat, so hashes of recent short ones are cached."""
    return ((_cached_murmur2(key) if len(key) <= _CACHED_KEY_BYTES_MAX else murmur2(key)) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return Austin Appleby's MurmurHash2, unsigned, with the seed of Kafka's producers."""
    whole, left = divmod(len(data), 4)
    result = _SEED ^ len(data)
    for word in _words(whole).unpack_from(data):
        mixed = word * _M & _MASK
        result = (result * _M ^ (mixed ^ mixed >> 24) * _M) & _MASK
    if left:
        result = (result ^ int.from_bytes(data[-left:], "little")) * _M & _MASK
    result = (result ^ result >> 13) * _M & _MASK
    return result ^ result >> 15


_cached_murmur2 = lru_cache(maxsize=16384)(murmur2)


@lru_cache(maxsize=256)
def _words(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I")
