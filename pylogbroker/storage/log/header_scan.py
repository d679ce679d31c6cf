"""Walking along the headers of a segment's entries, without reading what they carry.

How an entry is found is the layout's business (see `layouts`).  Of a numbered one only the first 27 bytes are looked
at; their places are the same in all formats that number their records:

```
 0  8  offset              of the first record (v2), or of the last one (v0, v1)
 8  4  size                of what follows
16  1  magic               0, 1 or 2
23  4  last offset delta   (v2 only)
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from pylogbroker.errors import CorruptRecords
from pylogbroker.storage.files import Buffer

_HEAD: Final = Struct(">qi4xb6xi")
_HEAD_SIZE: Final = _HEAD.size
_PREFIX: Final = 12
_SMALLEST: Final = 14  # the size of a v0 message with neither key nor value
_BLOCK: Final = 4096


class Header(NamedTuple):
    """Where an entry lies and which offsets it covers."""

    position: int
    size: int
    first_offset: int
    last_offset: int


class IndexDamaged(CorruptRecords):
    """An index entry does not fit the entries of the log."""


Fields = tuple[int, int, int, int]
"""What a header has, which costs less than a header."""

Read = Callable[[int, int], Buffer]
"""`read(length, position)` gives bytes of a file, fewer than `length` only at its end."""


def headers(found: Iterator[Fields]) -> Iterator[Header]:
    """The headers of the entries that a layout finds between a position, where one begins, and an end.

    CorruptRecords at what cannot be an entry, one that reaches beyond the end included.
    """
    return map(Header._make, found)


def find_offset(found: Iterator[Fields], offset: int, indexed: int = -1) -> Header | None:
    """The first entry that reaches `offset`; None if none does.

    If the position of the first one is from an index, `indexed` is what the index says of it, its last offset;
    IndexDamaged if that is not so.
    """
    for fields in _checked(found, indexed):
        if fields[3] >= offset:
            return Header._make(fields)
    return None


def find_boundary(found: Iterator[Fields], limit: int, indexed: int = -1) -> Header | None:
    """The first entry that does not fit below position `limit`; None if all do.  `indexed` as above."""
    for fields in _checked(found, indexed):
        if fields[0] + fields[1] > limit:
            return Header._make(fields)
    return None


def _checked(found: Iterator[Fields], indexed: int) -> Iterator[Fields]:
    """The same, if the first of them ends with the offset that the index told, or the index told nothing."""
    if indexed < 0:
        return found
    try:
        first = next(found, None)
    except CorruptRecords as error:
        raise IndexDamaged(error.detail) from error
    if first is None or first[3] != indexed:
        raise IndexDamaged(f"no entry ends with offset {indexed}")
    return chain((first,), found)


def scan_offset_addressed(read: Read, position: int, end: int) -> Iterator[Fields]:
    """The entries of a numbered layout between two positions."""
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
    """Some bytes from `position` on, at least as many as a header has: zeros follow the end."""
    block = read(min(_BLOCK, end - position), position)
    return block if len(block) >= _HEAD_SIZE else bytes(block).ljust(_HEAD_SIZE, b"\0")
