"""Page cache: finds regions that can be sent without waiting for the disk, and reads the others into it.

`preadv_cached` raises BlockingIOError for bytes that are not in the page cache. In a large region one byte per
`_STRIDE` is probed, since the kernel reads ahead in pieces of about that size. A small region is read whole: a
`sendfile` would cost more. Unreadable regions count as not cached; `read_ahead` raises the error.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from pylogbroker.records import MAGIC_AT, Buffer, never
from pylogbroker.storage import FileRegion, NotCached
from pylogbroker.storage.files import opened
from pylogbroker.system import preadv_cached, read_soon, send_file

READ_INLINE_BYTES_MAX = 64 * 1024
"""Larger regions are sent from their file."""

_STRIDE = 128 * 1024
_byte = [bytearray(1)]


def is_cached(region: FileRegion) -> bool:
    fd, position = region.file.fd, region.position
    last = position + region.length - 1
    try:
        for sample in range(position, last, _STRIDE):
            preadv_cached(fd, _byte, sample)
        preadv_cached(fd, _byte, last)
    except OSError as error:
        return error.errno == errno.EOPNOTSUPP
    return True


def read_if_cached(region: FileRegion) -> Buffer | None:
    """Return a small region's bytes; None if they are not cached."""
    data = bytearray(region.length)
    try:
        count = preadv_cached(region.file.fd, (data,), region.position)
    except OSError as error:
        return region.read() if error.errno == errno.EOPNOTSUPP else None
    return data if count == region.length else None


def magic_if_cached(region: FileRegion) -> int | None:
    """Return the format of a region's first entry; None if it is not cached."""
    try:
        data = region.file.read_cached(1, region.position + MAGIC_AT)
    except (NotCached, OSError):
        return None
    return data[0]


def read_ahead(region: FileRegion, is_stopped: Callable[[], bool] = never) -> None:
    """Read `region` into the page cache, and let the kernel read on behind it. Blocks.

    Nothing is copied: `sendfile` waits for the bytes and drops them. Steps are small: the kernel may hold the processor
    while it finds memory for one.
    """
    fd, position, end = region.file.fd, region.position, region.position + region.length
    for step in range(position, end + region.length + _STRIDE, _STRIDE):
        read_soon(fd, step, _STRIDE)
    with opened(os.devnull, os.O_WRONLY) as nowhere:
        while position < end and not is_stopped():
            position += send_file(nowhere, fd, position, min(_STRIDE, end - position)) or end
