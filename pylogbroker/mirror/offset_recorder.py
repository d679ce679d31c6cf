"""Records where committed records lie in both clusters, and stores that as offset syncs.

    headers    positions get the runs of the transaction, and those that are not stored yet; both are committed together
    committed  they count as runs
    store      once a second they are written as offset syncs, since a partition in use has ten transactions a second
    begin      a session begins with the runs of the stored positions: so none is lost by a kill at any place
    loaded     the offset syncs are read; what they have comes before what the positions have

A header has the newest `HEADER_RUNS_MAX` runs. More can be unstored where compaction has left many gaps, or while the
syncs cannot be written. A kill loses these, and translations are not exact there, but skip no record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.copier import CopyListener
from pylogbroker.mirror.offset_translation import (
    NOTHING_BEFORE,
    OffsetTranslation,
    Run,
    UnstoredRuns,
    sync_of,
)
from pylogbroker.mirror.positions import Position
from pylogbroker.mirror.target import AcknowledgedBatch
from pylogbroker.mirror_records.formats import OffsetSync
from pylogbroker.records import Header
from pylogbroker.wire import NO_ID

WriteSync = Callable[[OffsetSync, Header], Deferred[bool]]
"""Writes an offset sync; fires with whether it is stored."""
RUNS_PER_SYNC_MAX: Final = 100
STORED_AT_ONCE: Final = 100
"""Partitions whose runs are written before other work runs."""
HEADER_RUNS_MAX: Final = 1000
UNSTORED_RUNS_MAX: Final = 4096
"""Runs of one partition that wait until they can be stored; older ones are dropped."""


@attrs.define(eq=False, repr=False)
class _PartitionRuns:
    """The end of a partition's copy.

    `position`: records of the source below it are copied. `last`: `Run.copied_to` of the last run.
    """

    position: int
    last: int
    topic_id: UUID
    unstored: list[Run] = attrs.field(factory=list)
    in_flight: int = 0
    """So many of the first unstored runs are being written."""
    attempt: int = 0
    """After a failure, all unstored runs are written again."""

    def take_over(self, runs: Sequence[Run]) -> None:
        """Put runs that an earlier session could not store before those that the position has."""
        first = self.unstored[0] if self.unstored else None
        if first is not None:
            older = [run for run in runs if run.upstream < first.upstream and run.downstream < first.downstream]
            self.unstored[:0] = older

    def add(self, runs: Sequence[Run]) -> None:
        self.unstored += runs
        surplus = len(self.unstored) - UNSTORED_RUNS_MAX
        if surplus > 0:
            del self.unstored[:surplus]
            self.in_flight = max(0, self.in_flight - surplus)

    def written(self, runs: Sequence[Run], attempt: int, *, is_stored: bool) -> None:
        if attempt != self.attempt:
            return
        if not is_stored:
            self.attempt += 1
            self.in_flight = 0
            return
        while self.unstored and self.unstored[0].downstream <= runs[-1].downstream:
            del self.unstored[0]
            self.in_flight = max(0, self.in_flight - 1)


@attrs.define(eq=False, repr=False)
class OffsetRecorder(CopyListener):
    """Adds committed runs to `translation`; `store` passes them to `write_sync`, which is None if nothing is stored."""

    translation: OffsetTranslation
    _write_sync: WriteSync | None
    _positions: Mapping[TopicPartition, Position] = attrs.field(factory=dict)
    _from_positions: Mapping[TopicPartition, UnstoredRuns] = attrs.field(factory=dict)
    _partitions: dict[TopicPartition, _PartitionRuns] = attrs.field(factory=dict)
    _before: dict[TopicPartition, _PartitionRuns] = attrs.field(factory=dict)
    """Those of the last session."""
    _prepared: dict[TopicPartition, list[Run]] = attrs.field(factory=dict)
    """Runs that are being committed."""
    _waiting: dict[TopicPartition, None] = attrs.field(factory=dict)
    """Partitions that may have runs to write."""
    _is_loaded: bool = False

    def unload(self) -> None:
        """Forget all runs: stored ones are read again, because another process has stored some."""
        self._is_loaded = False
        self._partitions.clear()
        self.translation.clear()

    def loaded(self) -> None:
        """Note that the translation has all runs that were stored."""
        self._is_loaded = True
        for partition in {*self._partitions, *self._from_positions, *self.translation.by_partition}:
            self._resume(partition)

    def begin(
        self, positions: Mapping[TopicPartition, Position], unstored: Mapping[TopicPartition, UnstoredRuns]
    ) -> None:
        """Begin a session at these positions, which have these runs."""
        self._positions, self._from_positions = dict(positions), dict(unstored)
        self._before, self._partitions = self._partitions, {}
        self._prepared.clear()
        for partition in [*self._before, *(partition for partition, runs in unstored.items() if runs.runs)]:
            self._of(partition)
        if self._is_loaded:
            self.loaded()
        self._before = {}

    def headers(
        self, batches: Sequence[AcknowledgedBatch], positions: Mapping[TopicPartition, Position]
    ) -> Mapping[TopicPartition, Header]:
        by_partition: dict[TopicPartition, list[AcknowledgedBatch]] = {}
        for batch in batches:
            if batch.source is not None:
                by_partition.setdefault(batch.source, []).append(batch)
        headers: dict[TopicPartition, Header] = {}
        for partition, position in positions.items():
            copied = self._moving(partition, position)
            runs = list(_new_runs(by_partition.get(partition, ()), copied.last, position.next_offset))
            self._prepared[partition] = runs
            unstored = (*copied.unstored[-HEADER_RUNS_MAX:], *runs)[-HEADER_RUNS_MAX:]
            headers[partition] = UnstoredRuns(_after(unstored, copied.last), unstored).header()
        return headers if self._write_sync is not None else {}

    def committed(self, positions: Mapping[TopicPartition, Position]) -> None:
        for partition, position in positions.items():
            copied, runs = self._partitions[partition], self._prepared.pop(partition)
            copied.position = position.next_offset
            if runs:
                copied.last = runs[-1].copied_to
            if self._write_sync is not None or not self._is_loaded:
                copied.add(runs)
                self._waiting[partition] = None
            if self._is_loaded:
                translation = self.translation.of(partition)
                for run in runs:
                    translation.add(run)
                translation.passed(copied.position)
                if len(copied.unstored) - copied.in_flight >= RUNS_PER_SYNC_MAX:
                    self._store(partition, copied)

    def store(self) -> bool:
        """Write runs that are not stored yet, of a limited number of partitions; return whether there are more."""
        if not self._is_loaded:
            return False
        for partition in list(islice(self._waiting, STORED_AT_ONCE)):
            del self._waiting[partition]
            if partition in self._partitions:
                self._store(partition, self._partitions[partition])
        return bool(self._waiting)

    def _store(self, partition: TopicPartition, copied: _PartitionRuns) -> None:
        while self._write_sync is not None and copied.in_flight < len(copied.unstored):
            runs = list(_following(copied.unstored, copied.in_flight))
            copied.in_flight += len(runs)
            written = self._write_sync(*sync_of(*partition, runs))
            written.addCallback(partial(self._note_written, partition, copied, runs, copied.attempt))

    def _note_written(
        self, partition: TopicPartition, copied: _PartitionRuns, runs: Sequence[Run], attempt: int, is_stored: bool
    ) -> None:
        copied.written(runs, attempt, is_stored=is_stored)
        if not is_stored:
            self._waiting[partition] = None

    def _moving(self, partition: TopicPartition, position: Position) -> _PartitionRuns:
        """Return the end of a partition's copy, which is at its start if the topic was recreated."""
        copied = self._of(partition)
        if NO_ID not in (copied.topic_id, position.topic_id) and copied.topic_id != position.topic_id:
            copied = _PartitionRuns(NOTHING_BEFORE, NOTHING_BEFORE, position.topic_id)
            self._partitions[partition] = copied
        return copied

    def _of(self, partition: TopicPartition) -> _PartitionRuns:
        copied = self._partitions.get(partition)
        if copied is None:
            copied = self._partitions[partition] = self._begun(partition)
            if copied.unstored:
                self._waiting[partition] = None
        return copied

    def _begun(self, partition: TopicPartition) -> _PartitionRuns:
        position = self._positions.get(partition)
        if position is None:
            return _PartitionRuns(NOTHING_BEFORE, NOTHING_BEFORE, NO_ID)
        start = position.next_offset or NOTHING_BEFORE
        recorded = self._from_positions.get(partition)
        if recorded is None:
            return _PartitionRuns(start, start, position.topic_id)
        copied = _PartitionRuns(start, recorded.copied_to, position.topic_id, list(recorded.runs))
        if partition in self._before:
            copied.take_over(self._before[partition].unstored)
        return copied

    def _resume(self, partition: TopicPartition) -> None:
        """Add the runs that are not stored, and continue behind them."""
        copied = self._of(partition)
        translation = self.translation.of(partition)
        for run in copied.unstored:
            translation.add(run)
        if self._write_sync is None:
            copied.unstored.clear()
        translation.resume(copied.position, copied.last)


def _after(runs: Sequence[Run], last: int) -> int:
    return last if not runs or runs[0].after is None else runs[0].after


def _following(runs: Sequence[Run], start: int) -> Iterator[Run]:
    """Yield runs from a place on as far as one sync takes them: they follow each other."""
    for place in range(start, min(start + RUNS_PER_SYNC_MAX, len(runs))):
        if place > start and runs[place].after != runs[place - 1].copied_to:
            return
        yield runs[place]


def _new_runs(written: Sequence[AcknowledgedBatch], after: int, position: int) -> Iterator[Run]:
    """Yield the runs of batches of one partition, behind one that is copied to `after`."""
    joined = list(_joined(_runs(written)))
    for number, (upstream, downstream, records) in enumerate(joined, 1):
        end = upstream + records
        copied_to = max(position, end) if number == len(joined) else end
        yield Run(upstream, downstream, records, after, copied_to)
        after = copied_to


def _runs(written: Sequence[AcknowledgedBatch]) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of batches: offsets in the source and in the target, and number of records."""
    for one in sorted(written, key=lambda it: it.target_offset):
        offsets = one.batch.offsets
        if offsets is None:
            yield one.batch.first_offset, one.target_offset, one.batch.count
            continue
        for place, offset in enumerate(offsets):
            yield offset, one.target_offset + place, 1


def _joined(runs: Iterator[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Join runs that follow each other in both logs."""
    last: tuple[int, int, int] | None = None
    for upstream, downstream, records in runs:
        if last is not None and (last[0] + last[2], last[1] + last[2]) == (upstream, downstream):
            last = last[0], last[1], last[2] + records
            continue
        if last is not None:
            yield last
        last = upstream, downstream, records
    if last is not None:
        yield last
