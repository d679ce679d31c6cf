"""Records where committed records lie in both clusters, and writes that as offset syncs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.copier import CopyListener
from pylogbroker.mirror.offset_translation import OffsetTranslation
from pylogbroker.mirror.positions import Position
from pylogbroker.mirror.target import AcknowledgedBatch
from pylogbroker.mirror_records.formats import OffsetSync
from pylogbroker.records import Header

WriteSync = Callable[[OffsetSync, Header], object]


@attrs.define(eq=False, repr=False)
class OffsetRecorder(CopyListener):
    """Adds committed runs to `translation`, and passes each to `write_sync`."""

    translation: OffsetTranslation
    _write_sync: WriteSync
    _positions: Mapping[TopicPartition, Position] = attrs.field(factory=dict)
    _resumed: set[TopicPartition] = attrs.field(factory=set)

    def begin(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Begin a session at these positions: of partitions without one, nothing was copied."""
        self._positions = dict(positions)
        self._resumed.clear()
        for partition in list(self.translation.by_partition):
            self._resume(partition)

    def committed(self, batches: Sequence[AcknowledgedBatch], positions: Mapping[TopicPartition, Position]) -> None:
        by_partition: dict[TopicPartition, list[AcknowledgedBatch]] = {}
        for batch in batches:
            if batch.source is not None:
                by_partition.setdefault(batch.source, []).append(batch)
        for partition, written in by_partition.items():
            self._add(partition, list(_joined(_runs(written))), positions[partition].next_offset)
        for partition in positions.keys() - by_partition.keys():
            self._resume(partition)
            self.translation.of(partition).passed(positions[partition].next_offset)

    def _add(self, partition: TopicPartition, runs: Sequence[tuple[int, int, int]], position: int) -> None:
        self._resume(partition)
        translation = self.translation.of(partition)
        for number, (upstream, downstream, records) in enumerate(runs, 1):
            copied_to = position if number == len(runs) else upstream + records
            run = translation.copied(upstream, downstream, records, copied_to)
            self._write_sync(run.sync(*partition), run.header())

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
