"""Records where committed records lie in both clusters, and stores that as offset syncs.

Runs of a second are stored together, since a partition in use has ten transactions a second. A mirror that is killed
loses those of its last second. Then translations of these records are not exact any more, but skip none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.copier import CopyListener
from pylogbroker.mirror.offset_translation import OffsetTranslation, Run, sync_of
from pylogbroker.mirror.positions import Position
from pylogbroker.mirror.target import AcknowledgedBatch
from pylogbroker.mirror_records.formats import OffsetSync
from pylogbroker.records import Header

WriteSync = Callable[[OffsetSync, Header], object]
RUNS_PER_SYNC_MAX: Final = 100


@attrs.define(eq=False, repr=False)
class OffsetRecorder(CopyListener):
    """Adds committed runs to `translation`; `store` passes them to `write_sync`.

    Until `loaded` is called, what is committed waits: stored runs come first.
    """

    translation: OffsetTranslation
    _write_sync: WriteSync
    _unstored: dict[TopicPartition, list[Run]] = attrs.field(factory=dict)
    _positions: Mapping[TopicPartition, Position] = attrs.field(factory=dict)
    _resumed: set[TopicPartition] = attrs.field(factory=set)
    _waiting: list[Callable[[], None]] = attrs.field(factory=list)
    _is_loaded: bool = False

    def loaded(self) -> None:
        """Add what has waited: the translation has all that was stored."""
        self._is_loaded = True
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            work()

    def begin(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Begin a session at these positions: of partitions without one, nothing was copied."""
        self._when_loaded(partial(self._begin, dict(positions)))

    def _when_loaded(self, work: Callable[[], None]) -> None:
        if self._is_loaded:
            work()
        else:
            self._waiting.append(work)

    def _begin(self, positions: Mapping[TopicPartition, Position]) -> None:
        self._positions = positions
        self._resumed.clear()
        for partition in list(self.translation.by_partition):
            self._resume(partition)

    def committed(self, batches: Sequence[AcknowledgedBatch], positions: Mapping[TopicPartition, Position]) -> None:
        self._when_loaded(partial(self._add_committed, batches, positions))

    def _add_committed(
        self, batches: Sequence[AcknowledgedBatch], positions: Mapping[TopicPartition, Position]
    ) -> None:
        by_partition: dict[TopicPartition, list[AcknowledgedBatch]] = {}
        for batch in batches:
            if batch.source is not None:
                by_partition.setdefault(batch.source, []).append(batch)
        for partition, written in by_partition.items():
            self._add(partition, list(_joined(_runs(written))), positions[partition].next_offset)
        for partition in positions.keys() - by_partition.keys():
            self._resume(partition)
            self.translation.of(partition).passed(positions[partition].next_offset)

    def store(self) -> None:
        """Write the runs since the last call."""
        for partition in list(self._unstored):
            self._store(partition)

    def _store(self, partition: TopicPartition) -> None:
        self._write_sync(*sync_of(*partition, self._unstored.pop(partition)))

    def _add(self, partition: TopicPartition, runs: Sequence[tuple[int, int, int]], position: int) -> None:
        self._resume(partition)
        translation = self.translation.of(partition)
        for number, (upstream, downstream, records) in enumerate(runs, 1):
            copied_to = position if number == len(runs) else upstream + records
            run = translation.copied(upstream, downstream, records, copied_to)
            unstored = self._unstored.setdefault(partition, [])
            if unstored and (run.after != unstored[-1].copied_to or len(unstored) >= RUNS_PER_SYNC_MAX):
                self._store(partition)
            self._unstored.setdefault(partition, []).append(run)

    def _resume(self, partition: TopicPartition) -> None:
        if partition not in self._resumed:
            self._resumed.add(partition)
            position = self._positions.get(partition)
            self.translation.of(partition).resume(None if position is None else position.next_offset)


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
