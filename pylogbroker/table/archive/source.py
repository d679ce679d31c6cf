"""Reads across an archive and the log of a topic: no gap, no record twice.

Each position is looked up: what the archive has of it is read to its end, else the log from there on. While the log is
read, its beginning may be archived and deleted. Then the read goes on in the archive.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pylogbroker.blocking.cluster import BlockingCluster, OffsetAtTime
from pylogbroker.client.errors import OutOfRange
from pylogbroker.config import Values
from pylogbroker.interfaces import TopicPartition
from pylogbroker.table.archive.archives import ReadableArchive, ReadablePartition
from pylogbroker.table.archive.layout import ArchivedRange
from pylogbroker.table.bounds import ReadRange
from pylogbroker.table.decoder import TYPES
from pylogbroker.table.errors import RecordsDeleted
from pylogbroker.table.topic_source import RawRows, TopicSource
from pylogbroker.wire.messages.list_offsets import EARLIEST

_KINDS: Final = pa.array(["CreateTime", "LogAppendTime"])


class ArchivedCluster(BlockingCluster):
    """A cluster whose topics begin where an archive begins. Topics must be known by `topics` before their offsets."""

    def __init__(self, settings: Values, archive: ReadableArchive) -> None:
        super().__init__(settings)
        self._archive = archive

    def offsets(
        self, times: Mapping[TopicPartition, int], seconds: float | None = None
    ) -> dict[TopicPartition, OffsetAtTime]:
        offsets = super().offsets(times, seconds)
        for (topic, partition), time in times.items():
            archived = self._archive.partition(topic, self.topic_id(topic), partition)
            of_log = offsets[topic, partition]
            offsets[topic, partition] = attrs.evolve(of_log, offset=_with_archive(archived, time, of_log.offset))
        return offsets


def _with_archive(archived: ReadablePartition, time: int, of_log: int) -> int:
    """Return the first offset at or after a time, in an archive or else in the log."""
    if time == EARLIEST:
        return min([of_log, *(part.start for part in archived.ranges()[:1])])
    if time < 0:
        return of_log
    offset = archived.first_since(time)
    return of_log if offset is None else offset


@attrs.frozen(eq=False, repr=False)
class ArchivedTopicSource(TopicSource):
    """A topic with what an archive has of it."""

    archive: ReadableArchive

    def _offsets(
        self, cluster: BlockingCluster, topic_id: UUID, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        offsets = super()._offsets(cluster, topic_id, times)
        for (topic, partition), time in times.items():
            archived = self.archive.partition(topic, topic_id, partition)
            offsets[topic, partition] = _with_archive(archived, time, offsets[topic, partition])
        return offsets

    def _rows(
        self, cluster: BlockingCluster, part: ReadRange, columns: tuple[str, ...], topic_id: UUID
    ) -> Iterator[RawRows]:
        archived = self.archive.partition(self.topic, topic_id, part.partition)
        ranges = archived.ranges()
        while len(part):
            if (place := _range_with(ranges, part.start)) is not None:
                end = min(part.end, place.end)
                yield from self._of_archive(archived, place, attrs.evolve(part, end=end), columns)
                part = attrs.evolve(part, start=end)
                continue
            try:
                for raw in self._fetched(cluster, part, columns, topic_id):
                    yield raw
                    part = attrs.evolve(part, start=part.start + raw.passed)
                return
            except OutOfRange as error:
                ranges = archived.ranges()
                if _range_with(ranges, part.start) is None:
                    raise self._gap(ranges, part, error) from error

    def _gap(self, ranges: Sequence[ArchivedRange], part: ReadRange, error: OutOfRange) -> RecordsDeleted:
        first = min([later.start for later in ranges if later.start > part.start] + [error.first])
        return RecordsDeleted(
            f"{self.topic}/{part.partition}: offsets {part.start} to {first} are neither in the log nor in"
            f" {self.archive.place}: they were deleted before they were archived; read up to {part.start}, and from"
            f" {first} on"
        )

    def _of_archive(
        self, archived: ReadablePartition, place: ArchivedRange, part: ReadRange, columns: tuple[str, ...]
    ) -> Iterator[RawRows]:
        stored = [_stored_name(name) for name in columns if name not in ("topic", "partition")]
        passed = part.start
        for rows in archived.batches(place, part.start, part.end, stored):
            if rows.num_rows:
                last = rows.column("offset")[-1].as_py() + 1
                yield RawRows(part.partition, self._decoder_rows(rows, part, columns), last - passed)
                passed = last

    def _decoder_rows(self, rows: pa.RecordBatch, part: ReadRange, columns: tuple[str, ...]) -> pa.RecordBatch:
        """Return rows as the decoder of record batches returns them."""
        constants: dict[str, Any] = {"topic": self.topic, "partition": part.partition}
        arrays = [
            pa.repeat(pa.scalar(constants[name], TYPES[name]), rows.num_rows)
            if name in constants
            else _decoder_column(rows, name)
            for name in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([(name, TYPES[name]) for name in columns]))


def _range_with(ranges: Sequence[ArchivedRange], offset: int) -> ArchivedRange | None:
    """Return the range of an offset, of ranges in order."""
    at = bisect_right(ranges, offset, key=lambda one: one.start) - 1
    return ranges[at] if at >= 0 and offset < ranges[at].end else None


def _stored_name(name: str) -> str:
    return "timestamp_type" if name == "timestampType" else name


def _decoder_column(rows: pa.RecordBatch, name: str) -> pa.Array:
    column = rows.column(_stored_name(name))
    if name != "timestampType":
        return column.cast(TYPES[name])
    return pc.fill_null(pc.index_in(column.cast(pa.string()), _KINDS), -1)
