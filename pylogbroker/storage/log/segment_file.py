"""Record file of a segment: its descriptor, writes that are complete or did not happen, and reads by position.

```
 0                              size               reserved
 [ batch ][ batch ][ batch     ][ preallocated blocks ]
                                 not part of the file's size
```

The caller knows the file's size.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import LogEntry
from pylogbroker.storage import names
from pylogbroker.storage.files import Buffer, FileHandle, FileRegion, Pools, read_at, write_at
from pylogbroker.storage.log.addressing import OFFSET_ADDRESSED, Addressing
from pylogbroker.storage.log.header_scan import Fields, Header, Read, headers
from pylogbroker.system import preallocate, reserve, sync_data

_HEADER_BYTES_MAX: Final = 61
_RESERVING_FROM_BYTES: Final = 1 << 20  # smaller segments gain little
_RESERVED_BYTES_MAX: Final = 16 << 20
_BLOCK_BYTES: Final = 1 << 20


@attrs.define(eq=False, repr=False)
class SegmentFile:
    directory: str
    base_offset: int
    pools: Pools
    addressing: Addressing = OFFSET_ADDRESSED
    _reserved: int = attrs.field(default=0, init=False)  # end of the preallocated blocks
    _handle: FileHandle | None = attrs.field(default=None, init=False)

    @property
    def path(self) -> str:
        return names.file_of(self.directory, self.base_offset, names.RECORDS)

    # Descriptor

    @property
    def handle(self) -> FileHandle:
        handle = self._handle
        return handle if handle is not None else self.keep_open(FileHandle.open(self.path, os.O_RDWR))

    def keep_open(self, handle: FileHandle) -> FileHandle:
        self._handle = handle
        self.pools.files.admit(self)
        return handle

    def release(self) -> None:
        """Drop the descriptor; reads in progress keep it open."""
        self._handle = None

    def close(self) -> None:
        self.pools.files.forget(self)
        self._handle = None

    def region(self, position: int, length: int, next_offset: int = -1) -> FileRegion:
        first = -1 if self.addressing is OFFSET_ADDRESSED else self.base_offset + position
        return FileRegion(self.handle, position, length, next_offset, first)

    # Writing

    def write(self, chunks: Sequence[Buffer], size: int, position: int) -> None:
        """Write `chunks` of `size` bytes at the file's end, `position`; on OSError nothing has changed."""
        handle = self._handle or self.handle
        if position + size > self._reserved and position > _RESERVING_FROM_BYTES:
            self._reserve(handle.fd, position)
        try:
            write_at(handle.fd, chunks, position, size)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(handle.fd, position)
            raise

    def preallocate(self, size: int) -> None:
        """Allocate a full segment; until `unreserve` this is the file's size."""
        preallocate(self.handle.fd, size)
        self._reserved = size

    def _reserve(self, fd: int, position: int) -> None:
        length = min(position // 4, _RESERVED_BYTES_MAX)
        reserve(fd, position, length)
        self._reserved = position + length

    def unreserve(self, size: int) -> None:
        if self._reserved > size:
            os.ftruncate(self.handle.fd, size)
        self._reserved = 0

    def cut(self, position: int) -> None:
        """Drop the bytes from `position` on. Writes use another handle then: a region may hold the old one."""
        os.ftruncate(self.handle.fd, position)
        self.release()

    def sync(self) -> bool:
        """Sync; return whether the file exists. Blocks; any thread."""
        try:
            handle = self._handle or FileHandle.open(self.path, os.O_RDWR)
        except FileNotFoundError:
            return False
        sync_data(handle.fd)
        return True

    # Reading

    def scan(self, position: int, end: int, may_wait: bool = True) -> Iterator[Fields]:
        """Yield the batches' headers; raise CorruptRecords at an invalid one."""
        return self.addressing.scan(self._reader(may_wait), position, end, self.base_offset)

    def entry_headers(self, position: int, end: int, may_wait: bool = True) -> Iterator[tuple[Header, LogEntry]]:
        """Yield parsed headers too; `buffer`, `size`, `check` and `records` of the entries are invalid."""
        return self._entry_headers(self._reader(may_wait), position, end)

    def header_scan(self, position: int, end: int) -> Callable[[], Iterator[tuple[Header, LogEntry]]]:
        """Return a function that begins `entry_headers`. Any thread may use it; the file stays open."""
        return partial(self._entry_headers, self.handle.read, position, end)

    def _entry_headers(self, read: Read, position: int, end: int) -> Iterator[tuple[Header, LogEntry]]:
        read = _reread(read)
        for header in headers(self.addressing.scan(read, position, end, self.base_offset)):
            yield header, self._parse_header(read, header.position, header.size)

    def entry_at(self, position: int, end: int, may_wait: bool = True) -> LogEntry:
        return self._parse_header(self._reader(may_wait), position, end - position)

    def read_entry(self, header: Header) -> LogEntry:
        data = memoryview(read_at(self.handle.fd, header.size, header.position))
        return self.addressing.parse(data, self.base_offset + header.position, header.size)

    def entries(self, end: int) -> Iterator[LogEntry]:
        """Read whole batches before `end`; raise CorruptRecords at an invalid one."""
        fd = self.handle.fd
        position, read_size = 0, _BLOCK_BYTES
        while position < end:
            block = read_at(fd, min(read_size, end - position), position)
            begin = position
            for entry in self.addressing.entries(block, self.base_offset + position):
                yield entry
                position += entry.size
            read_size = _BLOCK_BYTES
            if position == begin:
                read_size = self.addressing.claimed_size(block)
                if read_size > end - position or read_size <= len(block):
                    raise CorruptRecords(f"a batch of {read_size} bytes where {end - position} bytes are left")

    def _reader(self, may_wait: bool) -> Read:
        return self.handle.read if may_wait else self.handle.read_cached

    def _parse_header(self, read: Read, position: int, size: int) -> LogEntry:
        try:
            data = memoryview(read(min(_HEADER_BYTES_MAX, size), position))
            return self.addressing.parse(data, self.base_offset + position, size)
        except (struct.error, IndexError) as error:
            raise CorruptRecords(f"no valid batch at position {position}") from error


def _reread(read: Read) -> Read:
    """Return a function that reads like `read`, but not what its last call has read."""
    start, block = 0, memoryview(b"")

    def read_again(length: int, position: int) -> Buffer:
        nonlocal start, block
        offset = position - start
        if not 0 <= offset <= len(block) - length:
            start, block, offset = position, memoryview(read(length, position)), 0
        return block[offset : offset + length]

    return read_again
