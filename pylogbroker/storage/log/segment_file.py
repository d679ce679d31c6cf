"""A segment's file of entries: its descriptor, writes that are whole or did not happen, and entries by position.

```
 0                              size               reserved
 [ entry ][ entry ][ entry     ][ blocks made ready, ]
                                 which the file's size does not count
```

Headers are parsed here, records are not.  Where the caller may not wait for the disk, but would have to, NotCached is
raised.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import LogEntry
from pylogbroker.storage import names
from pylogbroker.storage.files import Buffer, FileHandle, FileRegion, Pools, read_at, reserve, write_at
from pylogbroker.storage.log.addressing import OFFSET_ADDRESSED, Addressing
from pylogbroker.storage.log.header_scan import Fields, Header, Read, headers

_LONGEST_HEADER: Final = 61
_RESERVE_FROM: Final = 1 << 20  # bytes of a segment; small ones are many, and not worth it
_MOST_RESERVED: Final = 16 << 20


@attrs.define(eq=False)
class SegmentFile:
    """The file `<base offset>.kafka` of a log's directory, `size` bytes of which are entries."""

    directory: str
    base_offset: int
    size: int
    pools: Pools
    addressing: Addressing = attrs.field(default=OFFSET_ADDRESSED, kw_only=True)
    reserved: int = attrs.field(default=0, kw_only=True)  # up to where blocks are ready
    _handle: FileHandle | None = attrs.field(default=None, kw_only=True)

    @property
    def path(self) -> str:
        return names.file_of(self.directory, self.base_offset, names.RECORDS)

    # The descriptor

    @property
    def handle(self) -> FileHandle:
        """The open file; opened when first needed."""
        handle = self._handle
        return handle if handle is not None else self.admit(FileHandle.open(self.path, os.O_RDWR))

    def admit(self, handle: FileHandle) -> FileHandle:
        """Keep the open file until the pool of descriptors wants it back."""
        self._handle = handle
        self.pools.files.admit(self)
        return handle

    def release(self) -> None:
        """Give the descriptor back, once the reads that are under way are done with it."""
        self._handle = None

    def region(self, position: int, length: int, next_offset: int = -1) -> FileRegion:
        first = -1 if self.addressing is OFFSET_ADDRESSED else self.base_offset + position
        return FileRegion(self.handle, position, length, next_offset, first)

    # Writing

    def write(self, chunks: Sequence[Buffer], size: int) -> None:
        """Write `chunks`, `size` bytes together, behind what is there; OSError, and nothing changed, if they can't be.

        `size` counts them only when the caller has added them to it.
        """
        handle = self._handle or self.handle
        if self.size + size > self.reserved and self.size > _RESERVE_FROM:
            self._reserve(handle.fd)
        try:
            write_at(handle.fd, chunks, self.size, size)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(handle.fd, self.size)
            raise

    def preallocate(self, size: int) -> None:
        """Have blocks ready for all that the file may get, and count them to its size."""
        os.posix_fallocate(self.handle.fd, 0, size)
        self.reserved = size

    def _reserve(self, fd: int) -> None:
        """Have blocks ready, a quarter of what is there already."""
        length = min(self.size // 4, _MOST_RESERVED)
        reserve(fd, self.size, length)
        self.reserved = self.size + length

    def unreserve(self) -> None:
        """Give back what is not used."""
        if self.reserved > self.size:
            os.ftruncate(self.handle.fd, self.size)
        self.reserved = 0

    def cut(self, position: int) -> None:
        """Drop what lies at and behind `position`.  From now on the handle is another, as are the bytes that follow."""
        os.ftruncate(self.handle.fd, position)
        self.size = position
        self.release()

    # Entries

    def reader(self, may_wait: bool = True) -> Read:
        """How to read the file."""
        return self.handle.read if may_wait else self.handle.read_cached

    def entry_headers(self, position: int = 0, may_wait: bool = True) -> Iterator[tuple[Header, LogEntry]]:
        """Headers only: `buffer`, `size`, `check` and `records` of these entries must not be used."""
        read = self.reader(may_wait)
        for header in headers(self.walk(position, may_wait)):
            yield header, self.parse_header(read, header.position, header.size)

    def entry_at(self, position: int, may_wait: bool = True) -> LogEntry:
        """One of these."""
        return self.parse_header(self.reader(may_wait), position, self.size - position)

    def whole(self, header: Header) -> LogEntry:
        """The entry that `header` tells of, all of it."""
        data = memoryview(read_at(self.handle.fd, header.size, header.position))
        return self.addressing.parse(data, self.base_offset + header.position, header.size)

    def walk(self, position: int = 0, may_wait: bool = True) -> Iterator[Fields]:
        """The headers from a position on, where an entry begins; CorruptRecords at what cannot be an entry."""
        return self.addressing.walk(self.reader(may_wait), position, self.size, self.base_offset)

    def parse_header(self, read: Read, position: int, size: int) -> LogEntry:
        """The entry at `position`, of at most `size` bytes, as far as its header tells."""
        try:
            data = memoryview(read(min(_LONGEST_HEADER, size), position))
            return self.addressing.parse(data, self.base_offset + position, size)
        except (struct.error, IndexError) as error:
            raise CorruptRecords(f"no entry at position {position}") from error
