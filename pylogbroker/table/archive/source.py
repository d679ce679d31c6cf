"""Reads across an archive and the log of a topic: no gap, no record twice.

Each position is looked up: a file of the archive that has it is read to its end, else the log from there on. While
the log is read, its beginning may be archived and deleted. Then the read goes on in the archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pylogbroker.blocking.cluster import BlockingCluster, OffsetAtTime
from pylogbroker.client.errors import OutOfRange
from pylogbroker.config import Values
from pylogbroker.interfaces import TopicPartition
from pylogbroker.table.archive.layout import RECORDS, ArchivedFile, directory_of, files_in, id_text
from pylogbroker.table.bounds import ReadRange
from pylogbroker.table.columns import type_of
from pylogbroker.table.decoder import TYPES
from pylogbroker.table.errors import RecordsDeleted, TableError
from pylogbroker.table.topic_source import RawRows, TopicSource
from pylogbroker.wire.messages.list_offsets import EARLIEST

_BATCH_ROWS: Final = 18_000
_KINDS: Final = pa.array(["CreateTime", "LogAppendTime"])
_MICROSECONDS: Final = 1000


class ArchivedCluster(BlockingCluster):
    """A cluster whose topics begin where an archive begins. Topics must be known by `topics` before their offsets."""

    def __init__(self, settings: Values, root: Path) -> None:
        super().__init__(settings)
        self._root = root

    def offsets(
        self, times: Mapping[TopicPartition, int], seconds: float | None = None
    ) -> dict[TopicPartition, OffsetAtTime]:
        offsets = super().offsets(times, seconds)
        for (topic, partition), time in times.items():
            directory = directory_of(self._root, RECORDS, topic, id_text(self.topic_id(topic)), partition)
            of_log = offsets[topic, partition]
            offset = _with_archive(files_in(directory), time, of_log.offset)
            offsets[topic, partition] = attrs.evolve(of_log, offset=offset)
        return offsets


def _with_archive(files: Sequence[ArchivedFile], time: int, of_log: int) -> int:
    """Return the first offset at or after a time, in an archive or else in the log."""
    if time == EARLIEST and files:
        return min(files[0].start, of_log)
    if time < 0:
        return of_log
    return next((offset for file in files if (offset := _offset_since(file, time)) is not None), of_log)


@attrs.frozen(eq=False, repr=False)
class ArchivedTopicSource(TopicSource):
    """A topic with what the directory of an archive has of it."""

    root: Path

    def _offsets(
        self, cluster: BlockingCluster, topic_id: UUID, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        offsets = super()._offsets(cluster, topic_id, times)
        for (topic, partition), time in times.items():
            files = self._files(topic_id, partition)
            offsets[topic, partition] = _with_archive(files, time, offsets[topic, partition])
        return offsets

    def _files(self, topic_id: UUID, partition: int) -> list[ArchivedFile]:
        return files_in(directory_of(self.root, RECORDS, self.topic, id_text(topic_id), partition))

    def _rows(
        self, cluster: BlockingCluster, part: ReadRange, columns: tuple[str, ...], topic_id: UUID
    ) -> Iterator[RawRows]:
        while len(part):
            file = self._file_with(topic_id, part)
            if file is not None:
                end = min(part.end, file.end)
                yield from self._of_file(file, attrs.evolve(part, end=end), columns)
                part = attrs.evolve(part, start=end)
                continue
            try:
                for raw in self._fetched(cluster, part, columns, topic_id):
                    yield raw
                    part = attrs.evolve(part, start=part.start + raw.passed)
                return
            except OutOfRange as error:
                if self._file_with(topic_id, part) is None:
                    raise self._gap(topic_id, part, error) from error

    def _file_with(self, topic_id: UUID, part: ReadRange) -> ArchivedFile | None:
        files = self._files(topic_id, part.partition)
        return next((file for file in files if file.start <= part.start < file.end), None)

    def _gap(self, topic_id: UUID, part: ReadRange, error: OutOfRange) -> RecordsDeleted:
        files = self._files(topic_id, part.partition)
        first = min([file.start for file in files if file.start > part.start] + [error.first])
        return RecordsDeleted(
            f"{self.topic}/{part.partition}: offsets {part.start} to {first} are neither in the log nor in {self.root}:"
            f" they were deleted before they were archived; read up to {part.start}, and from {first} on"
        )

    def _of_file(self, file: ArchivedFile, part: ReadRange, columns: tuple[str, ...]) -> Iterator[RawRows]:
        stored = [_stored_name(name) for name in columns if name not in ("topic", "partition")]
        passed = part.start
        try:
            with pq.ParquetFile(file.path) as parquet:
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=list(dict.fromkeys(["offset", *stored]))):
                    rows = _within(batch, part)
                    if rows.num_rows:
                        last = rows.column("offset")[-1].as_py() + 1
                        yield RawRows(part.partition, self._decoder_rows(rows, part, columns), last - passed)
                        passed = last
        except (OSError, pa.ArrowException) as error:
            raise TableError(f"{file.path} cannot be read: {error}") from error

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


def _stored_name(name: str) -> str:
    return "timestamp_type" if name == "timestampType" else name


def _decoder_column(rows: pa.RecordBatch, name: str) -> pa.Array:
    column = rows.column(_stored_name(name))
    if name != "timestampType":
        return column.cast(TYPES[name])
    return pc.fill_null(pc.index_in(column, _KINDS), -1)


def _within(batch: pa.RecordBatch, part: ReadRange) -> pa.RecordBatch:
    offsets = batch.column("offset").to_numpy()
    if not len(offsets) or (offsets[0] >= part.start and offsets[-1] < part.end):
        return batch
    return batch.filter(pa.array((offsets >= part.start) & (offsets < part.end)))


def _offset_since(file: ArchivedFile, time_ms: int) -> int | None:
    """Return the first offset of a file whose record is as late as a time; None without one."""
    try:
        with pq.ParquetFile(file.path) as parquet:
            for number in range(parquet.num_row_groups):
                rows = parquet.read_row_group(number, columns=["offset", "timestamp"])
                times = rows.column("timestamp").cast(type_of("timestamp")).cast(pa.int64()).to_numpy()
                late = np.flatnonzero(times >= time_ms * _MICROSECONDS)
                if late.size:
                    return int(rows.column("offset")[int(late[0])].as_py())
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{file.path} cannot be read: {error}") from error
    return None
