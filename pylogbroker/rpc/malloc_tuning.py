"""Malloc tuning: keep the memory of freed large blocks.

glibc returns a freed large block to the kernel at once. For the next response of a megabyte it maps new pages, which
takes longer than decoding the response. Freeing one block of 16 MiB raises glibc's dynamic thresholds: blocks up to
that size, and twice that size at the end of the heap, then stay allocated. Other allocators are unaffected.
"""

from __future__ import annotations

from functools import cache

_PIECE = 16 << 20


@cache
def retain_freed_memory() -> None:
    bytes(_PIECE)
