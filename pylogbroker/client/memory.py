"""Keeping the memory of what is freed.

glibc gives large pieces of memory back to the kernel as soon as they are freed, and gets them anew, page by page, for
the next answer of a megabyte: that takes longer than to decode it.  A piece that is freed once, and so large, has it
keep pieces up to that size, and as much again at the end of the heap.  Other allocators are not impressed.
"""

from __future__ import annotations

from functools import cache

_PIECE = 16 << 20


@cache
def keep_what_is_freed() -> None:
    """See to it, once for the process."""
    bytes(_PIECE)
