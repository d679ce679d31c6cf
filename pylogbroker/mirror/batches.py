"""Batches of the source as batches for the target. No I/O.

    entry of the source                                  what the target gets
    ---------------------------------------------------  --------------------------------------------------------
    v2 batch without gaps, with the producers' times      its records as they are, also compressed; another header
    small uncompressed ones of those, one after another   their records together in one batch
    compacted batch, batch that begins too early,         its records from the position on, encoded again with the
    batch with append times, message of format v0 or v1   same codec
    marker of a transaction, aborted or emptied batch     nothing

A broker numbers the records of a batch one after another. So a batch from which compaction removed records cannot be
passed on as it is. Append times are those of the source's broker, and become the times of the records: a target with
append times replaces them by its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from pylogbroker.records import Buffer, Codec, Header, LogEntry
from pylogbroker.records.batch import (
    CODEC,
    CRC_START,
    DELETE_HORIZON,
    HEADER_V2,
    LENGTH_START,
    TIMESTAMP_TYPE,
    TRANSACTIONAL,
)
from pylogbroker.records.checksum import crc32c
from pylogbroker.records.columnar import AbortedTransactions, decode, encode
from pylogbroker.records.log_entry import bounds, parse
from pylogbroker.records.model import view

_CRC: Final = struct.Struct(">I")
_CHANGED: Final = TIMESTAMP_TYPE | DELETE_HORIZON
JOINED_BATCH_BYTES_MAX: Final = 16_384
"""Size up to which uncompressed batches are joined: a request has one batch of each partition."""
JOINED_BYTES_MAX: Final = 262_144
NO_LEADER_EPOCH: Final = -1


@attrs.frozen(eq=False, repr=False)
class Producer:
    """Identity that the target knows the mirror by; -1 without idempotence."""

    id: int = -1
    epoch: int = -1
    is_transactional: bool = False


@attrs.frozen(eq=False, repr=False)
class MirroredBatch:
    """Records for one partition of the target, without a producer.

    `header` has the fields after the producer is known; `payload` is the encoded records, maybe compressed.
    """

    codec: int
    count: int
    first_timestamp: int
    max_timestamp: int
    payload: Buffer
    first_offset: int
    """Offset of the first record in the source."""
    next_offset: int
    """Offset after the last record in the source, and after records that the source no longer has."""
    offsets: tuple[int, ...] | None = None
    """Offsets in the source if there are gaps between the records; None if there are none."""

    @property
    def size(self) -> int:
        return HEADER_V2.size + len(self.payload)

    def sealed(self, producer: Producer, sequence: int) -> bytes:
        """Return the batch as a produce request has it."""
        attributes = self.codec | (TRANSACTIONAL if producer.is_transactional else 0)
        header = HEADER_V2.pack(
            0,
            HEADER_V2.size - LENGTH_START + len(self.payload),
            NO_LEADER_EPOCH,
            2,
            0,
            attributes,
            self.count - 1,
            self.first_timestamp,
            self.max_timestamp,
            producer.id,
            producer.epoch,
            sequence,
            self.count,
        )
        crc = crc32c(self.payload, crc32c(header[CRC_START:]))
        return b"".join((header[: CRC_START - _CRC.size], _CRC.pack(crc), header[CRC_START:], self.payload))


@attrs.frozen(eq=False, repr=False)
class ConvertedRecords:
    """Batches of a fetch, and the offset after all that it returned, also after what is not passed on."""

    batches: tuple[MirroredBatch, ...]
    next_offset: int
    leader_epoch: int
    skipped: int
    """Offsets that hold no record for the target: markers, aborted records, and those that compaction removed."""


def mirrored(records: Buffer, position: int, aborted: Iterable[tuple[int, int]] = ()) -> ConvertedRecords | None:
    """Return the batches for the target of the records of a fetch from `position` on; None without a complete entry.

    `aborted` has the producer id and first offset of each aborted transaction. Raise CorruptRecords for damage, and
    InvalidRecords for an unknown codec.
    """
    buffer = view(records)
    hidden = AbortedTransactions(aborted)
    batches: list[MirroredBatch] = []
    run = _Run(buffer, position)
    last: LogEntry | None = None
    for start, stop in bounds(buffer, partial=True):
        entry = parse(buffer[start:stop])
        is_hidden = entry.magic == 2 and (hidden.hides(entry) or entry.is_control or not entry.count)
        if entry.next_offset <= position:
            continue
        last = entry
        if is_hidden:
            batches += run.end()
            continue
        entry.check()
        if not run.takes(entry):
            batches += run.end()
        run.add(entry, start, stop)
    batches += run.end()
    if last is None:
        return None
    count = sum(batch.count for batch in batches)
    skipped = max(0, last.next_offset - position - count)
    return ConvertedRecords(tuple(batches), last.next_offset, last.leader_epoch, skipped)


def new_batch(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    timestamp: int,
    headers: Sequence[tuple[Header, ...]] | None = None,
) -> MirroredBatch:
    """Return a batch of records that are not from the source."""
    batch = encode(keys, values, [timestamp] * len(values), headers)
    return MirroredBatch(
        Codec.NONE, len(values), timestamp, timestamp, memoryview(batch)[HEADER_V2.size :], 0, len(values)
    )


@attrs.define(eq=False, repr=False)
class _Run:
    """Entries next to each other that become one batch."""

    _buffer: memoryview
    _position: int
    _start: int = 0
    _stop: int = 0
    _entries: list[LogEntry] = attrs.field(factory=list)

    def takes(self, entry: LogEntry) -> bool:
        if not self._entries:
            return True
        return (
            _is_small(entry)
            and _is_small(self._entries[-1])
            and self._stop - self._start + entry.size <= JOINED_BYTES_MAX
        )

    def add(self, entry: LogEntry, start: int, stop: int) -> None:
        if not self._entries:
            self._start = start
        self._entries.append(entry)
        self._stop = stop

    def end(self) -> Iterator[MirroredBatch]:
        """Return the batch of the run, if there is one, and begin another run."""
        run, self._entries = self._entries, []
        if len(run) == 1 and self._is_whole(run[0]):
            yield _as_it_is(run[0])
        elif run:
            codec = run[0].codec
            yield from _encoded(self._buffer[self._start : self._stop], self._position, codec, run[-1].next_offset)

    def _is_whole(self, entry: LogEntry) -> bool:
        """Return whether a broker would number the records as they are numbered."""
        return (
            entry.magic == 2
            and entry.count == entry.last_offset - entry.base_offset + 1
            and entry.base_offset >= self._position
            and not entry.attributes & _CHANGED
        )


def _is_small(entry: LogEntry) -> bool:
    return not entry.attributes & CODEC and entry.size <= JOINED_BATCH_BYTES_MAX


def _as_it_is(entry: LogEntry) -> MirroredBatch:
    return MirroredBatch(
        entry.codec,
        entry.count,
        entry.first_timestamp,
        entry.max_timestamp,
        entry.buffer[HEADER_V2.size :],
        entry.base_offset,
        entry.next_offset,
    )


def _encoded(records: Buffer, position: int, codec: Codec, next_offset: int) -> Iterator[MirroredBatch]:
    """Encode the records from `position` on as one batch, without gaps between their offsets."""
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[tuple[Header, ...]] = []
    timestamps: list[int] = []
    offsets: list[int] = []
    for columns in decode(records, position, check=False):
        keys += columns.keys()
        values += columns.values()
        headers += columns.headers()
        timestamps += columns.timestamps.tolist()
        offsets += columns.offsets.tolist()
    if offsets:
        batch = encode(keys, values, timestamps, headers, codec=codec)
        has_gaps = offsets[-1] - offsets[0] + 1 != len(offsets)
        yield MirroredBatch(
            codec,
            len(offsets),
            timestamps[0],
            max(timestamps),
            memoryview(batch)[HEADER_V2.size :],
            offsets[0],
            next_offset,
            tuple(offsets) if has_gaps else None,
        )
