"""How the entries of a log are laid out: the one thing that differs between the message formats, as far as files go.

```
NUMBERED     v0, v1, v2   each entry says its offsets; the next one has larger ones
POSITIONED   0.7          an entry's offset is the position of its first byte in the partition's stream, counted from
                          the first segment's on: the base offset of its segment, plus its position in the file
```

A positioned entry takes as many offsets as it has bytes, so that everything that is true of offsets elsewhere is true
here: the next entry begins behind the last offset, and a segment where the one before ends.  Any offset can be turned
into a place in a file without an index; the index is for who needs to know where an entry begins.

A log has one layout from its beginning to its end.  A directory says it by a file, `message-format`, which is there
before the first segment is; without it, the log is a numbered one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import ENTRY_PREFIX, LogEntry, entries, messages
from pylogbroker.records.log_entry import parse
from pylogbroker.records.simple import HEADER_SIZES, SIZE_PREFIX, parse_legacy07, whole_size
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile
from pylogbroker.storage.files import Buffer, read_file, replace_file
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.header_scan import Fields, Read, scan_offset_addressed

_POSITIONED: Final = b"0.7\n"
_BLOCK: Final = 4096
_LONGEST: Final = max(HEADER_SIZES)


class Addressing(Protocol):
    """What files ask of a format."""

    def walk(self, read: Read, position: int, end: int, base_offset: int) -> Iterator[Fields]:
        """The headers between two positions of a segment's file; see `scan.headers`."""

    def parse(self, buffer: memoryview, offset: int, size: int) -> LogEntry:
        """The entry of `size` bytes that begins with `buffer`, where `offset` is the byte's position in the stream."""

    def entries(self, buffer: Buffer, offset: int) -> Iterator[LogEntry]:
        """Those in `buffer`, without one that is cut off at its end; CorruptRecords at what cannot be one."""

    def claimed(self, buffer: Buffer) -> int:
        """The bytes of the entry that begins with `buffer`."""


class _OffsetAddressed:
    def walk(self, read: Read, position: int, end: int, base_offset: int) -> Iterator[Fields]:
        return scan_offset_addressed(read, position, end)

    def parse(self, buffer: memoryview, offset: int, size: int) -> LogEntry:
        return parse(buffer)

    def entries(self, buffer: Buffer, offset: int) -> Iterator[LogEntry]:
        return entries(buffer, partial=True)

    def claimed(self, buffer: Buffer) -> int:
        whole = ENTRY_PREFIX
        return whole + int.from_bytes(buffer[8:whole], "big", signed=True) if len(buffer) >= whole else whole


class _ByteAddressed:
    def walk(self, read: Read, position: int, end: int, base_offset: int) -> Iterator[Fields]:
        block: Buffer = b""
        start = position
        while position < end:
            if len(block) - (position - start) < _LONGEST:
                block, start = read(min(_BLOCK, end - position), position), position
            size = whole_size(block, position - start, len(block), base_offset + position)
            if position + size > end:
                raise CorruptRecords(f"no message at position {position}")
            yield position, size, base_offset + position, base_offset + position + size - 1
            position += size

    def parse(self, buffer: memoryview, offset: int, size: int) -> LogEntry:
        return parse_legacy07(buffer, offset, size)

    def entries(self, buffer: Buffer, offset: int) -> Iterator[LogEntry]:
        return messages(buffer, offset, partial=True)

    def claimed(self, buffer: Buffer) -> int:
        return SIZE_PREFIX + int.from_bytes(buffer[:SIZE_PREFIX], "big", signed=True)


OFFSET_ADDRESSED: Final[Addressing] = _OffsetAddressed()
BYTE_ADDRESSED: Final[Addressing] = _ByteAddressed()


def addressing_of(config: LogConfig) -> Addressing:
    """That of a new log with these settings."""
    return BYTE_ADDRESSED if config.byte_addressed else OFFSET_ADDRESSED


def read_message_format(path: str) -> Addressing:
    """What the file in a log's directory says; DamagedFile if that has no meaning."""
    name = f"{path}/{names.MESSAGE_FORMAT}"
    if read_file(name) != _POSITIONED:
        raise DamagedFile(f"{name}: expected 0.7 and the end of the line")
    return BYTE_ADDRESSED


def write_message_format(path: str, addressing: Addressing) -> None:
    """Let the directory of a new log say it.  Blocks on the disk, for a positioned one."""
    if addressing is BYTE_ADDRESSED:
        replace_file(f"{path}/{names.MESSAGE_FORMAT}", _POSITIONED)
