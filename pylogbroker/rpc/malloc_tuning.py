"""Malloc tuning: keep the memory of freed large blocks.

glibc returns freed large blocks to the kernel at once; mapping new pages for a response of a megabyte takes longer than
decoding it. Freeing one block of 16 MiB raises glibc's dynamic thresholds. Blocks up to that size, and twice that at
the end of the heap, stay allocated then.
"""

from __future__ import annotations

from functools import cache

_PIECE = 16 << 20


@cache
def retain_freed_memory() -> None:
    bytes(_PIECE)
