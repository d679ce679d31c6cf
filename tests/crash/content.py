"""Content of a partition's log, as the tests' own reader finds it after each start of the broker.

The bytes come from Fetch requests or from the files of a broker that is dead; they are split into entries here, and
decoded by kafka-python's record classes. Each later read must find the same bytes again.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import attrs
from kafka.record import MemoryRecords

from tests.crash.stamps import NotStamped, Stamp, stamp_in

_PREFIX: Final = struct.Struct(">qi")  # of an entry of any format: offset, size of what follows
_LAST_DELTA: Final = struct.Struct(">23xi")
_MAGIC: Final = 16


@attrs.define
class Content:
    """The log of one partition from which nothing is ever deleted."""

    records: dict[int, Stamp] = attrs.field(factory=dict)  # by offset
    end: int = 0  # behind the last record
    ends: list[int] = attrs.field(factory=list)  # where the log ended when a life of the broker was over
    problems: list[str] = attrs.field(factory=list)
    _entries: list[tuple[int, int]] = attrs.field(factory=list)  # offset and CRC-32 of each, as it was read first

    def __len__(self) -> int:
        return len(self.records)

    def read(self, data: bytes) -> None:
        """The whole log was read, from its first entry on."""
        count = 0
        for entry in whole_entries(data):
            mark = _PREFIX.unpack_from(entry)[0], zlib.crc32(entry)
            if count == len(self._entries):
                self._entries.append(mark)
                self._take(entry)
            elif self._entries[count] != mark:
                self.problems.append(f"entry {count} was {self._entries[count]} and is {mark} (offset, CRC-32)")
                return
            count += 1
        if count < len(self._entries):
            self.problems.append(f"there were {len(self._entries)} entries, and only {count} are left")

    def _take(self, entry: bytes) -> None:
        """An entry that was not there before."""
        batch = MemoryRecords(entry).next_batch()
        if not batch.validate_crc():
            self.problems.append(f"an entry with a wrong CRC behind offset {self.end}")
            return
        for record in batch:
            if record.offset != self.end:
                self.problems.append(f"offset {record.offset} where {self.end} comes next")
            self.end = record.offset + 1
            try:
                self.records[record.offset] = stamp_in(record.value)
            except NotStamped as error:
                self.problems.append(f"a record at {record.offset} that nobody sent: {error}")


def whole_entries(data: bytes) -> Iterator[bytes]:
    """The entries in the bytes of a log, each as it is; what is not whole at the end is left out."""
    position = 0
    while len(data) - position > _PREFIX.size:
        size = _PREFIX.unpack_from(data, position)[1]
        end = position + _PREFIX.size + size
        if size <= 0 or end > len(data):
            return
        yield data[position:end]
        position = end


def end_of(data: bytes) -> int:
    """The offset behind the last whole entry; 0 if there is none."""
    end = 0
    for entry in whole_entries(data):
        first_or_last: int = _PREFIX.unpack_from(entry)[0]  # the last one, in the formats before v2
        end = first_or_last + (_LAST_DELTA.unpack_from(entry)[0] if entry[_MAGIC] == 2 else 0) + 1
    return end
