"""A controller's metadata log in memory, as answers to fetches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, Protocol

import attrs

from pylogbroker.records import Record, build
from pylogbroker.wire.messages.fetch import EpochEndOffset, PartitionData, SnapshotId
from pylogbroker.wire.messages.fetch_snapshot import SnapshotChunk, SnapshotName
from pylogbroker.wire.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    encode_record,
)

_SNAPSHOT_HEADER: Final = 3
"""Its body has a timestamp."""


def values(records: Iterable[MetadataRecord]) -> list[Record]:
    return [
        Record(index, 1000, None, encode_record(record, record.versions.last)) for index, record in enumerate(records)
    ]


def batch(base: int, epoch: int, records: Sequence[MetadataRecord]) -> bytes:
    return build(values(records), base_offset=base, leader_epoch=epoch)


def control_batch(base: int, epoch: int, kind: int, timestamp_ms: int = 1000) -> bytes:
    key = (0).to_bytes(2, "big") + kind.to_bytes(2, "big")
    body = b"\0" * (11 if kind == _SNAPSHOT_HEADER else 3)
    return build([Record(0, timestamp_ms, key, body)], base_offset=base, leader_epoch=epoch, control=True)


def snapshot(records: Sequence[MetadataRecord], per_batch: int = 3) -> bytes:
    """Return the bytes of a snapshot: header, records, footer."""
    parts, offset = [control_batch(0, 0, _SNAPSHOT_HEADER)], 1
    for start in range(0, len(records), per_batch):
        some = records[start : start + per_batch]
        parts.append(batch(offset, 0, some))
        offset += len(some)
    return b"".join([*parts, control_batch(offset, 0, 4)])


class SnapshotBytes(Protocol):
    """Bytes of a snapshot, or what makes them as they are read."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: slice, /) -> bytes: ...


@attrs.frozen
class Entry:
    """A batch in the leader's log; `records` is None for a control batch."""

    base: int
    epoch: int
    records: tuple[MetadataRecord, ...] | None
    timestamp_ms: int = 1000
    """Of a control batch."""

    @property
    def end(self) -> int:
        return self.base + (1 if self.records is None else len(self.records))

    @property
    def encoded(self) -> bytes:
        if self.records is None:
            return control_batch(self.base, self.epoch, 2, self.timestamp_ms)
        return batch(self.base, self.epoch, self.records)


@attrs.define
class LeaderLog:
    """The log of the active controller. Entries below `start` are gone: a snapshot has them."""

    entries: list[Entry] = attrs.field(factory=list)
    start: int = 0
    high_watermark: int = 0
    snapshots: dict[int, SnapshotBytes] = attrs.field(factory=dict)
    """By end offset. There, too, a compact one replaces that of all records."""

    @property
    def end(self) -> int:
        return self.entries[-1].end if self.entries else self.start

    def append(self, epoch: int, records: Sequence[MetadataRecord] | None) -> None:
        self.entries.append(Entry(self.end, epoch, None if records is None else tuple(records)))

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to this one that the log has, and the offset behind its last entry."""
        older = [entry for entry in self.entries if entry.epoch <= epoch]
        return (older[-1].epoch, older[-1].end) if older else (0, 0)

    def answer(self, offset: int, last_epoch: int, entries_max: int) -> PartitionData:
        """Answer a fetch by KIP-595's rules."""
        data = PartitionData(high_watermark=self.high_watermark)
        if offset < self.start or (offset == self.start and last_epoch < self._epoch_at_start):
            data.snapshot_id = SnapshotId(self.start, self._epoch_at_start)
            return data
        epoch, end = self.end_of(last_epoch)
        if offset and offset != self.start and (epoch != last_epoch or end < offset):
            data.diverging_epoch = EpochEndOffset(epoch, end)
            return data
        later = (entry.encoded for entry in self.entries if entry.base >= offset)
        data.records = b"".join(islice(later, entries_max))
        return data

    @property
    def _epoch_at_start(self) -> int:
        return max((entry.epoch for entry in self.entries if entry.end <= self.start), default=0)

    def take_snapshot(self, compact: Callable[[list[MetadataRecord]], Sequence[MetadataRecord]] | None = None) -> None:
        """Begin at the end of what is committed, before an open transaction; `compact` may make records fewer."""
        is_open, end = False, self.start
        for entry in self.entries:
            if entry.end > self.high_watermark:
                break
            for record in entry.records or ():
                if isinstance(record, BeginTransactionRecord):
                    is_open = True
                elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
                    is_open = False
            end = end if is_open else max(end, entry.end)
        self.start = end
        if compact is not None:
            self.snapshots[end] = snapshot(compact(self.committed(end)))

    def committed(self, below: int | None = None) -> list[MetadataRecord]:
        """Return the committed records, by default all, transaction records among them."""
        end = self.high_watermark if below is None else below
        return [record for entry in self.entries if entry.end <= end for record in entry.records or ()]

    def chunk(self, name: SnapshotName, position: int, size: int) -> SnapshotChunk:
        whole = self.snapshots.get(name.end_offset)
        if whole is None:
            whole = self.snapshots[name.end_offset] = snapshot(visible(self.committed(name.end_offset)))
        return SnapshotChunk(
            0, 0, name, size=len(whole), position=position, unaligned_records=whole[position : position + size]
        )


def visible(records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
    """Return what a broker may see of committed records: nothing of transactions that are aborted, or not at an end."""
    seen: list[MetadataRecord] = []
    held: list[MetadataRecord] | None = None
    for record in records:
        if isinstance(record, BeginTransactionRecord):
            held = []
        elif isinstance(record, AbortTransactionRecord):
            held = None
        elif isinstance(record, EndTransactionRecord):
            seen += held or []
            held = None
        else:
            (seen if held is None else held).append(record)
    return seen
