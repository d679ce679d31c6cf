"""Addressing of a log: how offsets and positions of batches are found. It is what differs between message formats on
disk.

```
OFFSET_ADDRESSED   v0, v1, v2   each batch has its offsets; the next one has larger ones
BYTE_ADDRESSED     0.7          a message's offset is the position of its first byte in the partition's stream, which
                                begins with the first segment: base offset of its segment plus position in the file
```

A byte-addressed message takes as many offsets as it has bytes. So the rules of offsets hold here, too: a message begins
after the last offset of the one before, and a segment where the one before ends. Any offset is a position in a file,
without an index; the index finds the bounds of messages.

A log's addressing never changes. A directory names it in the file `message-format`, which is written before the first
segment; without it, the log is offset-addressed.
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
_BLOCK_BYTES: Final = 4096
_HEADER_BYTES_MAX: Final = max(HEADER_SIZES)


class Addressing(Protocol):
    """Operations on files that depend on the message format."""

    def scan(self, read: Read, position: int, end: int, base_offset: int) -> Iterator[Fields]:
        """Yield the headers between two positions of a segment's file; raise CorruptRecords at an invalid one."""

    def parse(self, buffer: memoryview, offset: int, size: int) -> LogEntry:
        """Return the batch of `size` bytes that begins with `buffer`; `offset` is the stream position of its first
        byte.
        """

    def entries(self, buffer: Buffer, offset: int) -> Iterator[LogEntry]:
        """Yield the batches in `buffer`, without one that is cut off at its end; raise CorruptRecords at an invalid
        one.
        """

    def claimed_size(self, buffer: Buffer) -> int:
        """Return the size that the batch at the begin of `buffer` claims to have."""


class _OffsetAddressed:
    def scan(self, read: Read, position: int, end: int, base_offset: int) -> Iterator[Fields]:
        return scan_offset_addressed(read, position, end)

    def parse(self, buffer: memoryview, offset: int, size: int) -> LogEntry:
        return parse(buffer)

    def entries(self, buffer: Buffer, offset: int) -> Iterator[LogEntry]:
        return entries(buffer, partial=True)

    def claimed_size(self, buffer: Buffer) -> int:
        whole = ENTRY_PREFIX
        return whole + int.from_bytes(buffer[8:whole], "big", signed=True) if len(buffer) >= whole else whole


class _ByteAddressed:
    def scan(self, read: Read, position: int, end: int, base_offset: int) -> Iterator[Fields]:
        block: Buffer = b""
        start = position
        while position < end:
            if len(block) - (position - start) < _HEADER_BYTES_MAX:
                block, start = read(min(_BLOCK_BYTES, end - position), position), position
            size = whole_size(block, position - start, len(block), base_offset + position)
            if position + size > end:
                raise CorruptRecords(f"no valid message at position {position}")
            yield position, size, base_offset + position, base_offset + position + size - 1
            position += size

    def parse(self, buffer: memoryview, offset: int, size: int) -> LogEntry:
        return parse_legacy07(buffer, offset, size)

    def entries(self, buffer: Buffer, offset: int) -> Iterator[LogEntry]:
        return messages(buffer, offset, partial=True)

    def claimed_size(self, buffer: Buffer) -> int:
        return SIZE_PREFIX + int.from_bytes(buffer[:SIZE_PREFIX], "big", signed=True)


OFFSET_ADDRESSED: Final[Addressing] = _OffsetAddressed()
BYTE_ADDRESSED: Final[Addressing] = _ByteAddressed()


def addressing_of(config: LogConfig) -> Addressing:
    """Return the addressing of a new log with these settings."""
    return BYTE_ADDRESSED if config.byte_addressed else OFFSET_ADDRESSED


def read_message_format(path: str) -> Addressing:
    """Return the addressing named by the file in a log's directory; raise DamagedFile if it is unreadable."""
    name = f"{path}/{names.MESSAGE_FORMAT}"
    if read_file(name) != _POSITIONED:
        raise DamagedFile(f"{name}: expected '0.7' and a newline")
    return BYTE_ADDRESSED


def write_message_format(path: str, addressing: Addressing) -> None:
    """Write the file into a new log's directory; only a byte-addressed one needs it. Blocks on the disk."""
    if addressing is BYTE_ADDRESSED:
        replace_file(f"{path}/{names.MESSAGE_FORMAT}", _POSITIONED)
