"""Records of a segment's file, a few megabytes at a time, and what cannot be decoded.

A batch that cannot be decoded is a dead letter: its bytes, offset and place, and the reason. Where even the sizes of
batches are damaged, the rest of the file is dead letters, in pieces. So no byte is left out.
"""

from __future__ import annotations

import copy
import os
import struct
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa

from pylogbroker.errors import CorruptRecords, PylogbrokerError
from pylogbroker.records.columnar import AbortedTransactions
from pylogbroker.records.log_entry import bounds
from pylogbroker.table.decoder import Decoder
from pylogbroker.table.errors import TableError

_CHUNK_BYTES: Final = 8 << 20
_PREFIX: Final = struct.Struct(">qi")


@attrs.frozen
class UndecodedBytes:
    """Bytes that cannot be decoded: of batches, or of the key or value of a record."""

    offset: int
    """-1 if it is not known."""
    position: int | None
    """Of a batch in its segment."""
    reason: str
    content: bytes
    field: str | None = None
    """Of a record: key or value."""
    schema: str | None = None
    """Id or GUID that the content names."""


@attrs.frozen(eq=False, repr=False)
class SegmentReader:
    """Reads the offsets [start, end) in `size` bytes of the file of a segment that begins at `base`."""

    path: Path
    size: int
    base: int
    start: int
    end: int

    def parts(self, decoder: Decoder, aborted: AbortedTransactions) -> Iterator[pa.RecordBatch | UndecodedBytes]:
        with self.path.open("rb", buffering=0) as file:
            position = 0
            while position < self.size:
                chunk, damage = self._chunk(file.fileno(), position)
                aborted = yield from self._decoded(chunk, position, decoder, aborted)
                position += len(chunk)
                if damage is not None:
                    yield from self._rest(file.fileno(), position, damage)
                    return

    def _chunk(self, fd: int, position: int) -> tuple[memoryview, str | None]:
        """Return whole entries from a position on; and what is wrong with the next one, if its size is damaged."""
        length = _CHUNK_BYTES
        while True:
            data = memoryview(os.pread(fd, min(length, self.size - position), position))
            stop, damage = 0, None
            try:
                for _, stop in bounds(data, partial=True):  # noqa: B007 (the last one counts)
                    pass
            except PylogbrokerError as error:
                damage = str(error)
            if stop or damage is not None:
                return data[:stop], damage
            length = self._entry_size(data)
            if length > self.size - position or length <= len(data):
                return data[:0], f"an entry of {length} bytes is cut off after {len(data)}"

    def _entry_size(self, data: memoryview) -> int:
        return _PREFIX.size + int(_PREFIX.unpack_from(data)[1]) if len(data) >= _PREFIX.size else _PREFIX.size

    def _decoded(
        self, chunk: memoryview, position: int, decoder: Decoder, aborted: AbortedTransactions
    ) -> Generator[pa.RecordBatch | UndecodedBytes, None, AbortedTransactions]:
        """Yield what a chunk has; return the transactions that are aborted behind it."""
        behind = copy.deepcopy(aborted)
        start = self.start
        try:
            for begin, _ in bounds(chunk):
                self._check_offset(chunk[begin:])
            for part in decoder.decode(chunk, start, self.end, behind):
                yield part.rows
                start = part.next_offset
        except PylogbrokerError:
            yield from self._one_by_one(chunk, position, start, decoder, aborted)
            return aborted
        return behind

    def _one_by_one(
        self, chunk: memoryview, position: int, start: int, decoder: Decoder, aborted: AbortedTransactions
    ) -> Iterator[pa.RecordBatch | UndecodedBytes]:
        for begin, stop in bounds(chunk):
            entry = chunk[begin:stop]
            try:
                self._check_offset(entry)
                rows = [part.rows for part in decoder.decode(entry, start, self.end, aborted)]
            except PylogbrokerError as error:
                [offset, _] = _PREFIX.unpack_from(entry)
                yield UndecodedBytes(offset, position + begin, str(error), bytes(entry))
            else:
                yield from rows

    def _check_offset(self, entry: memoryview) -> None:
        """Raise CorruptRecords for an offset of another segment: no checksum covers it."""
        [offset, _] = _PREFIX.unpack_from(entry)
        if not self.base <= offset < self.end:
            raise CorruptRecords(f"the offset {offset} is not between those of the segment, {self.base} and {self.end}")

    def _rest(self, fd: int, position: int, reason: str) -> Iterator[UndecodedBytes]:
        for place in range(position, self.size, _CHUNK_BYTES):
            content = os.pread(fd, min(_CHUNK_BYTES, self.size - place), place)
            if not content:
                raise TableError(f"{self.path} ends before byte {self.size}: it was changed while it was archived")
            yield UndecodedBytes(-1, place, reason, content)
