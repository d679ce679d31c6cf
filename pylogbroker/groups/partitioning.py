"""Which partition of `__consumer_offsets` holds a group: Java's hash of the group id, its sign bit cleared."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def partition_for(group_id: str, partitions: int) -> int:
    """The group's partition."""
    return (java_hash(group_id) & 0x7FFFFFFF) % partitions


def java_hash(text: str) -> int:
    """`java.lang.String.hashCode` as an unsigned 32-bit number: s[0]*31^(n-1) + ... + s[n-1] over UTF-16 units."""
    result = 0
    units = memoryview(text.encode("utf-16-le", "surrogatepass"))
    for position in range(0, len(units), 2):
        result = (31 * result + (units[position] | units[position + 1] << 8)) & 0xFFFFFFFF
    return result
