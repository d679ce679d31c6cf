"""Checks of copiers: the committed records of the log that they write.

Here the markers in the log alone decide which transactions were committed. Other clients take that from the broker
(the list of aborted transactions in Fetch). Both must agree at the end.

| kind      | violation                                                                              |
|-----------|----------------------------------------------------------------------------------------|
| duplicate | a record is there in two committed transactions, or twice in one                       |
| order     | a later record of a partition of the source comes before an earlier one                |
| lost      | in the end, one is not there                                                           |
| foreign   | a committed value that is no copy of a record of the source                            |
| damaged   | the log as such, as for every other (`content`)                                        |
| unstable  | a reader of committed records was let past the start of a transaction that had not ended |
| hanging   | in the end, a transaction is open                                                      |
| offsets   | in the end, the copiers' group has not committed the end of a partition of the source  |
| readers   | in the end, another client sees something else                                         |
| epoch     | a client of transactions v2 has two transactions in one epoch                          |
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import attrs
from kafka.record import MemoryRecords

from tests.crash.checks import Violation
from tests.crash.content import Content
from tests.crash.history import Partition
from tests.crash.stamps import NotStamped, Stamp, stamp_in

_MARKER_TYPE: Final = struct.Struct(">2xh")  # in a marker's key, behind its version: 0 aborts, 1 commits
_NAMED: Final = 3  # wrong records that are named one by one; more of the same would say nothing new

Copied = tuple[int, bytes]  # offset, value


@attrs.define
class CopiedLog(Content):
    """The log of one partition that copiers write."""

    committed: list[Copied] = attrs.field(factory=list)  # in the order in which transactions were committed
    aborted: int = 0  # records
    transactions: list[int] = attrs.field(factory=lambda: [0, 0])  # aborted, committed
    open: dict[int, list[Copied]] = attrs.field(factory=dict)  # by producer id
    spans: list[tuple[int, int]] = attrs.field(factory=list)  # of transactions that ended: first offset, marker's
    same_epoch: Counter[str] = attrs.field(factory=Counter)  # transactions in the epoch of an earlier one, by copier
    _epochs: dict[int, int] = attrs.field(factory=dict)  # of open transactions, by producer id
    _ended_epochs: set[tuple[int, int]] = attrs.field(factory=set)  # producer id and epoch

    def _take(self, entry: bytes) -> None:
        batch = MemoryRecords(entry).next_batch()
        if not batch.validate_crc():
            self.problems.append(f"an entry with a wrong CRC behind offset {self.end}")
            return
        records = list(batch)
        for record in records:
            if record.offset != self.end:
                self.problems.append(f"offset {record.offset} where {self.end} comes next")
            self.end = record.offset + 1
        if batch.is_control_batch:
            self._finish(batch.producer_id, records[0].offset, bool(_MARKER_TYPE.unpack(bytes(records[0].key))[0]))
        else:
            kept = self.open.setdefault(batch.producer_id, []) if batch.is_transactional else self.committed
            kept += [(record.offset, record.value) for record in records]
            if batch.is_transactional:
                self._note_epoch(batch.producer_id, batch.producer_epoch, records[0].value)

    def _note_epoch(self, producer_id: int, epoch: int, value: bytes) -> None:
        if producer_id not in self._epochs and (producer_id, epoch) in self._ended_epochs:
            self.same_epoch[value.partition(b" ")[0].decode()] += 1
        self._epochs[producer_id] = epoch

    def _finish(self, producer_id: int, marker: int, committed: bool) -> None:
        records = self.open.pop(producer_id, [])
        if producer_id in self._epochs:
            self._ended_epochs.add((producer_id, self._epochs.pop(producer_id)))
        self.transactions[committed] += 1
        if records:
            self.spans.append((records[0][0], marker))
        if committed:
            self.committed += records
        else:
            self.aborted += len(records)

    def check_stable(self, stable: int, end: int) -> Iterator[Violation]:
        """The last stable offset, and the high watermark, as they were before the log was read."""
        spans = [*self.spans, *((records[0][0], self.end) for records in self.open.values())]
        early = [first for first, marker in spans if first < stable and marker >= end]
        if early:
            yield Violation("unstable", f"{stable} was stable, and the transaction from {early[0]} on had not ended")

    @property
    def values(self) -> list[bytes]:
        """The values of all that is committed, as a reader sees them from the start to the end."""
        return [value for _, value in sorted(self.committed)]


def original_of(value: bytes) -> Stamp:
    """Which record of the source a value is a copy of; NotStamped if it is none."""
    copier, _, rest = value.partition(b" ")
    checksum, _, original = rest.partition(b" ")
    if not copier or checksum != b"%08x" % zlib.crc32(original):
        raise NotStamped(repr(value))
    return stamp_in(original)


def check_copies(
    source: Mapping[Partition, int], logs: Iterable[Sequence[bytes]], *, settled: bool
) -> Iterator[Violation]:
    """Check the committed records of all partitions against the source."""
    found: dict[Partition, list[int]] = {partition: [] for partition in source}
    for values in logs:
        for value in values:
            try:
                stamp = original_of(value)
                found[stamp.topic, stamp.partition].append(stamp.sequence)
            except (NotStamped, KeyError) as error:
                yield Violation("foreign", f"{error}")
    for partition, sequences in found.items():
        name = f"{partition[0]}-{partition[1]}"
        for kind, what in _check_partition(source[partition], sequences, settled):
            yield Violation(kind, f"copies of {name}: {what}")


def _check_partition(count: int, sequences: Sequence[int], settled: bool) -> Iterator[tuple[str, str]]:
    first_copies = list(dict.fromkeys(sequences))
    if len(first_copies) < len(sequences):
        twice = sorted(sequences)
        named = [one for one, other in pairwise(twice) if one == other][:_NAMED]
        yield "duplicate", f"{len(sequences) - len(first_copies)} records, e.g. {named}"
    misplaced = [late for early, late in pairwise(first_copies) if late < early]
    if misplaced:
        yield "order", f"{len(misplaced)} records, e.g. {misplaced[:_NAMED]}"
    if settled and len(first_copies) < count:
        missing = sorted(set(range(count)) - set(first_copies))
        yield "lost", f"{len(missing)} of {count} records, e.g. {missing[:_NAMED]}"
    if unknown := [one for one in first_copies if one >= count]:
        yield "foreign", f"{len(unknown)} records, e.g. {unknown[:_NAMED]}"
