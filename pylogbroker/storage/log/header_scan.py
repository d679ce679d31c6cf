"""Iterates over the headers of a segment's record batches without reading their records.

Only 27 bytes of an offset-addressed batch are read; v0, v1 and v2 have these fields at the same places:

```
 0  8  offset              of the first record (v2), or of the last one (v0, v1)
 8  4  size                of the bytes after this field
16  1  magic               0, 1 or 2
23  4  last offset delta   (v2 only)
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from pylogbroker.errors import CorruptRecords
from pylogbroker.storage.files import Buffer

_HEAD: Final = Struct(">qi4xb6xi")
_HEAD_SIZE: Final = _HEAD.size
_PREFIX: Final = 12
_SMALLEST: Final = 14  # a v0 message with neither key nor value
_BLOCK: Final = 4096


class Header(NamedTuple):
    position: int
    size: int
    first_offset: int
    last_offset: int


class IndexDamaged(CorruptRecords):
    """An index entry disagrees with the batches."""


Fields = tuple[int, int, int, int]
"""`Header` as a plain tuple, which is cheaper."""

Read = Callable[[int, int], Buffer]
"""`read(length, position)` returns fewer than `length` bytes only at the end of a file."""


_header: Final[Callable[[Fields], Header]] = partial(tuple.__new__, Header)  # `Header._make` without its check


def headers(scan: Iterator[Fields]) -> Iterator[Header]:
    return map(_header, scan)


def find_offset(scan: Iterator[Fields], offset: int, indexed: int = -1) -> Header | None:
    """Return the first batch with records at or above `offset`, or None.

    `indexed` is the batch's last offset in the index, or -1. Raise IndexDamaged if they differ.
    """
    for fields in checked(scan, indexed):
        if fields[3] >= offset:
            return _header(fields)
    return None


def find_boundary(scan: Iterator[Fields], limit: int, indexed: int = -1) -> Header | None:
    """Return the first batch that ends beyond position `limit`. `indexed` is as in `find_offset`."""
    for fields in checked(scan, indexed):
        if fields[0] + fields[1] > limit:
            return _header(fields)
    return None


def checked(scan: Iterator[Fields], indexed: int) -> Iterator[Fields]:
    """Return the batches of a scan that begins at an index entry, whose last offset is `indexed`; -1 without an entry.

    Raise IndexDamaged if the first batch ends with another offset.
    """
    if indexed < 0:
        return scan
    try:
        first = next(scan, None)
    except CorruptRecords as error:
        raise IndexDamaged(error.detail) from error
    if first is None or first[3] != indexed:
        raise IndexDamaged(f"no entry ends with offset {indexed}")
    return chain((first,), scan)


def scan_offset_addressed(read: Read, position: int, end: int) -> Iterator[Fields]:
    """Raise CorruptRecords at an invalid header."""
    block: Buffer = b""
    start = position
    unpack = _HEAD.unpack_from
    while position < end:
        at = position - start
        if len(block) - at < _HEAD_SIZE:
            block, start, at = _block(read, position, end), position, 0
        offset, length, magic, delta = unpack(block, at)
        size = length + _PREFIX
        last = offset + delta if magic == 2 else offset
        if length < _SMALLEST or not 0 <= magic <= 2 or position + size > end or not 0 <= offset <= last:
            raise CorruptRecords(f"no entry at position {position}")
        yield position, size, offset, last
        position += size


def _block(read: Read, position: int, end: int) -> Buffer:
    block = read(min(_BLOCK, end - position), position)
    return block if len(block) >= _HEAD_SIZE else bytes(block).ljust(_HEAD_SIZE, b"\0")
