"""Addressing: the relation between the offsets of a log's entries and their places in its files.

```
offset-addressed   each entry has its offset; the next entry has a larger one (message formats v0, v1, v2)
byte-addressed     an entry's offset is the position of its first byte in the partition's stream: the base offset of
                   its segment plus its position in the file
```

A byte-addressed entry takes as many offsets as it has bytes, so offsets increase strictly in both. Its offset is its
place; the index only gives the starts of entries.

A log keeps its addressing. The file `message-format`, written before the first segment, marks a byte-addressed one.
Packages of such formats register them here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from pylogbroker.records import (
    ENTRY_PREFIX,
    AppendRules,
    Buffer,
    ConversionListener,
    LogEntry,
    PreparedRecords,
    entries,
)
from pylogbroker.records.conversion import SizeBudget
from pylogbroker.records.log_entry import parse
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile
from pylogbroker.storage.files import read_file, replace_file
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.header_scan import Fields, Read, scan_offset_addressed
from pylogbroker.storage.log.producer_states import Origin


class Addressing(Protocol):
    """Operations on segment files that depend on the message format."""

    def scan(self, read: Read, position: int, end: int, base_offset: int) -> Iterator[Fields]:
        """Yield the headers between two positions of a file."""

    def parse(self, buffer: memoryview, offset: int, size: int) -> LogEntry:
        """Return the entry of `size` bytes at the start of `buffer`; `offset` is its position in the stream."""

    def entries(self, buffer: Buffer, offset: int) -> Iterator[LogEntry]:
        """Yield whole entries; raise CorruptRecords for invalid bytes."""

    def claimed_size(self, buffer: Buffer) -> int:
        """Return the first entry's size, as its header states it."""


class ByteAddressing(Addressing, Protocol):
    """A byte-addressed message format."""

    message_format: str
    """As in the file `message-format`."""

    def is_costly(self, buffer: Buffer, origin: Origin) -> bool:
        """Return whether `prepare` would decode for long, so that `convert` should come first."""

    def convert(
        self, buffer: Buffer, rules: AppendRules, origin: Origin, now_ms: int, on_converted: ConversionListener
    ) -> Buffer:
        """Do the costly part of `prepare` in a worker, for an append with Origin.CONVERTED."""

    def prepare(
        self,
        buffer: Buffer,
        rules: AppendRules,
        origin: Origin,
        log_end_offset: int,
        now_ms: int,
        on_converted: ConversionListener,
    ) -> PreparedRecords:
        """Validate records, like `records.prepare`."""

    def to_offset_addressed(
        self, buffer: Buffer, position: int, magic: int, budget: SizeBudget, *, first_offset: int
    ) -> bytes:
        """Convert a log's bytes, read at `position`, for Kafka's protocol, like `records.down_convert`."""

    def describe_foreign_data(self, path: str) -> str | None:
        """Describe the format's files in a directory without any mark of the broker; None without such files."""


class _OffsetAddressing:
    def scan(self, read: Read, position: int, end: int, base_offset: int) -> Iterator[Fields]:
        return scan_offset_addressed(read, position, end)

    def parse(self, buffer: memoryview, offset: int, size: int) -> LogEntry:
        return parse(buffer)

    def entries(self, buffer: Buffer, offset: int) -> Iterator[LogEntry]:
        return entries(buffer, partial=True)

    def claimed_size(self, buffer: Buffer) -> int:
        whole = ENTRY_PREFIX
        return whole + int.from_bytes(buffer[8:whole], "big", signed=True) if len(buffer) >= whole else whole


OFFSET_ADDRESSED: Final[Addressing] = _OffsetAddressing()
_registered: Final[list[ByteAddressing]] = []


def register(addressing: ByteAddressing) -> None:
    _registered[:] = [addressing]


def byte_addressing() -> ByteAddressing:
    """Raise LookupError if no format is registered."""
    if not _registered:
        raise LookupError("no byte-addressed message format is registered: import pylogbroker.legacy07.storage")
    return _registered[0]


def addressing_of(config: LogConfig) -> Addressing:
    return byte_addressing() if config.byte_addressed else OFFSET_ADDRESSED


def read_message_format(path: str) -> Addressing:
    """Raise DamagedFile for an unknown message format."""
    name = f"{path}/{names.MESSAGE_FORMAT}"
    line = read_file(name) or b""
    for addressing in _registered:
        if line == _line(addressing):
            return addressing
    formats = ", ".join(addressing.message_format for addressing in _registered)
    raise DamagedFile(f"{name}: unknown message format {line[:20]!r}; expected one line with one of: {formats}")


def write_message_format(path: str, addressing: Addressing) -> None:
    """Mark a byte-addressed log's new directory. Blocks."""
    for registered in _registered:
        if addressing is registered:
            replace_file(f"{path}/{names.MESSAGE_FORMAT}", _line(registered))


def describe_foreign_data(path: str) -> str | None:
    reasons = (addressing.describe_foreign_data(path) for addressing in _registered)
    return next((reason for reason in reasons if reason is not None), None)


def _line(addressing: ByteAddressing) -> bytes:
    return f"{addressing.message_format}\n".encode()
