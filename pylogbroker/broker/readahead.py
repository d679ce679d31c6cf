"""Whether a region of a file can be sent without waiting for the disk, and bringing it in where it cannot.

`preadv` with RWF_NOWAIT answers EAGAIN for bytes that are not in the page cache.  One byte in every `_STRIDE` is asked
for: the kernel reads ahead in pieces of about that size.  File systems that don't know the flag are taken to be fast.
"""

from __future__ import annotations

import os

from pylogbroker.storage import FileRegion

_STRIDE = 128 * 1024
_byte = [bytearray(1)]


def is_cached(region: FileRegion) -> bool:
    """Whether `region` is in the page cache, as far as a sample tells."""
    fd, position = region.file.fd, region.position
    last = position + region.length - 1
    try:
        for sample in (*range(position, last, _STRIDE), last):
            os.preadv(fd, _byte, sample, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def read_ahead(region: FileRegion) -> None:
    """Bring `region` into the page cache; blocks, so it is called in a worker thread."""
    os.posix_fadvise(region.file.fd, region.position, region.length, os.POSIX_FADV_WILLNEED)
    position, end = region.position, region.position + region.length
    while position < end:
        position += len(os.pread(region.file.fd, min(1 << 20, end - position), position)) or end
