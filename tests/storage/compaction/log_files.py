"""A log made of files alone, without a broker: written batch by batch, cleaned, swapped by hand, and read by others.

Batches are made by this project's writer and read back by kafka-python's reader; indexes are read by hand.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch

from pylogbroker.records import Record, build
from pylogbroker.records.control import end_marker
from pylogbroker.storage.compaction.cleaner import clean
from pylogbroker.storage.compaction.jobs import Cleaned, CleanerJob, SourceSegment
from pylogbroker.storage.log.transaction_index import AbortedTxn

ABORTED = struct.Struct(">hqqqq")
NOW = 1_700_000_000_000
SUFFIXES = (".kafka", ".index", ".timeindex", ".txnindex")


@attrs.frozen
class Read:
    """A record as kafka-python reads it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@attrs.frozen
class Batch:
    """An entry as kafka-python reads it."""

    position: int
    magic: int
    base_offset: int
    last_offset: int
    attributes: int
    producer: tuple[int, int, int]
    first_timestamp: int
    max_timestamp: int
    records: tuple[Read, ...]

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & 0x20)

    @property
    def horizon(self) -> int | None:
        return self.first_timestamp if self.magic == 2 and self.attributes & 0x40 else None


def batches_in(data: bytes) -> list[Batch]:
    """All entries of a file, with good CRCs."""
    found = []
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at + 8)
        [part] = parts(data[at : at + 12 + size])
        found.append(_batch(at, part))
        at += 12 + size
    return found


def parts(data: bytes) -> list[Any]:
    """Entries, as kafka-python's readers."""
    found = []
    reader = MemoryRecords(data)
    while (part := reader.next_batch()) is not None:
        assert part.validate_crc()
        found.append(part)
    return found


def _batch(at: int, part: Any) -> Batch:
    records = tuple(
        Read(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value, tuple(map(tuple, r.headers or ())))
        for r in part
    )
    if not isinstance(part, DefaultRecordBatch):
        newest = max(record.timestamp for record in records)
        return Batch(at, part._magic, part._offset, part._offset, part._attributes, (-1, -1, -1), -1, newest, records)
    producer = part.producer_id, part.producer_epoch, part.base_sequence
    last = part.base_offset + part.last_offset_delta
    return Batch(
        at, 2, part.base_offset, last, part.attributes, producer, part.first_timestamp, part.max_timestamp, records
    )


@attrs.define
class Files:
    """The log in a directory.  Segments are rolled by hand; the last one is the active one."""

    directory: Path
    bases: list[int] = attrs.field(factory=lambda: [0])
    end: int = 0
    first_dirty: int = 0
    open: dict[int, int] = attrs.field(factory=dict)  # producer id -> first offset of its transaction
    aborted: list[AbortedTxn] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.path(0).touch()

    def path(self, base: int, suffix: str = ".kafka") -> Path:
        return self.directory / f"{base:020d}{suffix}"

    def add(self, records: Sequence[Record], **how: Any) -> int:
        """Append a batch; returns its base offset."""
        base = self.end
        self.append(build(records, base_offset=base, **how), len(records))
        if how.get("transactional"):
            self.open.setdefault(how["producer_id"], base)
        return base

    def put(self, *pairs: tuple[bytes | None, bytes | None], timestamp: int = NOW, **how: Any) -> int:
        """Append a batch of keys and values."""
        return self.add([Record(0, timestamp + n, key, value) for n, (key, value) in enumerate(pairs)], **how)

    def append(self, data: bytes, count: int) -> None:
        with self.path(self.bases[-1]).open("ab") as file:
            file.write(data)
        self.end += count

    def finish(self, producer: int, committed: bool, timestamp: int = NOW) -> None:
        """Append the marker of a producer's transaction."""
        data = bytearray(end_marker(committed, 0, producer, 0, timestamp))
        struct.pack_into(">q", data, 0, self.end)
        first = self.open.pop(producer, self.end)
        if not committed and first < self.end:
            stable = min(self.open.values(), default=self.end + 1)
            transaction = AbortedTxn(producer, first, self.end, stable)
            self.aborted.append(transaction)
            with self.path(self.bases[-1], ".txnindex").open("ab") as file:
                file.write(ABORTED.pack(0, *transaction))
        self.append(bytes(data), 1)

    def roll(self) -> None:
        if self.end > self.bases[-1]:
            self.bases.append(self.end)
            self.path(self.end).touch()

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min(self.open.values(), default=self.end)

    def job(self, now: int = NOW, **settings: Any) -> CleanerJob:
        """To clean what may be: sealed segments below the last stable offset."""
        borders = [base for base in self.bases if base <= self.stable]
        sources = tuple(self._source(base) for base in borders[:-1])
        behind = tuple(each for each in self.aborted if each.last_offset >= borders[-1])
        given: dict[str, Any] = {"aborted": behind, "segment_bytes": 1, "index_interval_bytes": 100} | settings
        return CleanerJob(str(self.directory), sources, self.first_dirty, borders[-1], now, **given)

    def _source(self, base: int) -> SourceSegment:
        state = self.path(base).stat()
        return SourceSegment(base, str(self.path(base)), state.st_size, int(state.st_mtime * 1000))

    def clean(self, now: int = NOW, **settings: Any) -> Cleaned:
        """Clean, and let the new files take their places."""
        cleaned = clean(self.job(now, **settings))
        for replacement in cleaned.replacements:
            for base in replacement.replaced:
                for suffix in SUFFIXES:
                    self.path(base, suffix).unlink(missing_ok=True)
            self.bases = [base for base in self.bases if base not in replacement.replaced[1:]]
        for path in self.directory.glob("*.cleaned"):
            os.rename(path, path.with_suffix(""))
        assert cleaned.first_dirty_offset >= self.first_dirty
        self.first_dirty = cleaned.first_dirty_offset
        return cleaned

    def segment(self, base: int) -> list[Batch]:
        return batches_in(self.path(base).read_bytes())

    def batches(self) -> list[Batch]:
        return [batch for base in self.bases for batch in self.segment(base)]

    def records(self) -> list[Read]:
        """All records but markers."""
        return [record for batch in self.batches() if not batch.is_control for record in batch.records]

    def pairs(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """Offsets, keys and values of all records but markers."""
        return [(record.offset, record.key, record.value) for record in self.records()]

    def indexed_aborted(self) -> list[AbortedTxn]:
        """Return the content of the transaction indexes."""
        found = []
        for base in self.bases:
            path = self.path(base, ".txnindex")
            if path.exists():
                found += [AbortedTxn(*fields) for _, *fields in ABORTED.iter_unpack(path.read_bytes())]
        return found
