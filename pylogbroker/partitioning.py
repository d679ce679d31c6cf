"""Which partition of `__consumer_offsets` or `__transaction_state` holds what is remembered of an id.

It is Java's hash of the group id or transactional id, its sign bit cleared, modulo the number of partitions.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def partition_for(name: str, partitions: int) -> int:
    """The partition of the group or transaction of that name."""
    return (java_hash(name) & 0x7FFFFFFF) % partitions


def java_hash(text: str) -> int:
    """`java.lang.String.hashCode` as an unsigned 32-bit number: s[0]*31^(n-1) + ... + s[n-1] over UTF-16 units."""
    result = 0
    units = memoryview(text.encode("utf-16-le", "surrogatepass"))
    for position in range(0, len(units), 2):
        result = (31 * result + (units[position] | units[position + 1] << 8)) & 0xFFFFFFFF
    return result
