"""Walking along the headers of a segment's entries, without reading what they carry.

Only the first 27 bytes of an entry are looked at; their places are the same in all message formats:

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


_Fields = tuple[int, int, int, int]
Read = Callable[[int, int], Buffer]
"""`read(length, position)` gives bytes of a file, fewer than `length` only at its end."""


def headers(read: Read, position: int, end: int) -> Iterator[Header]:
    """The headers of the entries between `position`, where one begins, and `end`.

    CorruptRecords at what cannot be an entry, one that reaches beyond `end` included.
    """
    return map(Header._make, _walk(read, position, end))


def find_offset(read: Read, position: int, end: int, offset: int, indexed: int = -1) -> Header | None:
    """The first entry from `position` on that reaches `offset`; None if none does.

    If the position is from an index, `indexed` is what the index says of the entry there, its last offset;
    IndexDamaged if that is not so.
    """
    for fields in _checked(_walk(read, position, end), indexed):
        if fields[3] >= offset:
            return Header._make(fields)
    return None


def find_boundary(read: Read, position: int, limit: int, end: int, indexed: int = -1) -> Header | None:
    """The entry from `position` on that does not fit below `limit`; None if all do.  `indexed` as above."""
    for fields in _checked(_walk(read, position, end), indexed):
        if fields[0] + fields[1] > limit:
            return Header._make(fields)
    return None


def _checked(found: Iterator[_Fields], indexed: int) -> Iterator[_Fields]:
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


def _walk(read: Read, position: int, end: int) -> Iterator[_Fields]:
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
