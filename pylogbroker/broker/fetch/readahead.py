"""Whether a region of a file can be sent without waiting for the disk, and bringing it in where it cannot.

`preadv` with RWF_NOWAIT answers EAGAIN for bytes that are not in the page cache.  Of a large region one byte in every
`_STRIDE` is asked for: the kernel reads ahead in pieces of about that size.  A small one is read as a whole: to send
its bytes along with the rest of an answer costs less than a `sendfile` of its own.  File systems that don't know the
flag are taken to be fast.  What cannot be read at all counts as not cached: who brings it in learns why.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from pylogbroker.records import MAGIC_AT, Buffer, never
from pylogbroker.storage import FileRegion, NotCached
from pylogbroker.storage.files import opened

READ_INLINE_BYTES_MAX = 64 * 1024
"""Bytes up to which a region is read rather than sent from its file."""

_STRIDE = 128 * 1024
_byte = [bytearray(1)]


def is_cached(region: FileRegion) -> bool:
    """Whether `region` is in the page cache, as far as a sample tells."""
    fd, position = region.file.fd, region.position
    last = position + region.length - 1
    try:
        for sample in range(position, last, _STRIDE):
            os.preadv(fd, _byte, sample, os.RWF_NOWAIT)
        os.preadv(fd, _byte, last, os.RWF_NOWAIT)
    except OSError as error:
        return error.errno == errno.EOPNOTSUPP
    return True


def read_if_cached(region: FileRegion) -> Buffer | None:
    """The bytes of a small region, or None if they are not in the page cache."""
    data = bytearray(region.length)
    try:
        count = os.preadv(region.file.fd, (data,), region.position, os.RWF_NOWAIT)
    except OSError as error:
        return region.read() if error.errno == errno.EOPNOTSUPP else None
    return data if count == region.length else None


def magic_if_cached(region: FileRegion) -> int | None:
    """The message format of a region's first entry, or None if that is not in the page cache."""
    try:
        data = region.file.read_cached(1, region.position + MAGIC_AT)
    except (NotCached, OSError):
        return None
    return data[0]


def read_ahead(region: FileRegion, is_stopped: Callable[[], bool] = never) -> None:
    """Bring `region` into the page cache, and let the kernel begin with what follows, as its reader may go on there.

    Blocks, so it is called in a worker thread.  It ends early when `is_stopped` says that nobody waits.  Nothing is
    copied: `sendfile` waits for the bytes, and drops them.  The steps are small, as the kernel may keep the processor
    from others until it has found memory for all of a step.
    """
    fd, position, end = region.file.fd, region.position, region.position + region.length
    for step in range(position, end + region.length + _STRIDE, _STRIDE):
        os.posix_fadvise(fd, step, _STRIDE, os.POSIX_FADV_WILLNEED)
    with opened(os.devnull, os.O_WRONLY) as nowhere:
        while position < end and not is_stopped():
            position += os.sendfile(nowhere, fd, position, min(_STRIDE, end - position)) or end
