"""Archives of Parquet files that are read: a directory, or its copy in an object store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from pylogbroker.table.archive.layout import RECORDS, ArchivedRange, directory_of, files_of, id_text
from pylogbroker.table.columns import type_of
from pylogbroker.table.errors import TableError

_BATCH_ROWS: Final = 18_000
_MICROSECONDS: Final = 1000


@attrs.frozen(eq=False, repr=False)
class ParquetArchive:
    _filesystem: pafs.FileSystem
    _root: str
    place: str

    def partition(self, topic: str, topic_id: UUID, partition: int) -> FilesOfPartition:
        directory = directory_of(self._root, RECORDS, topic, id_text(topic_id), partition)
        return FilesOfPartition(self._filesystem, str(directory))


@attrs.frozen(eq=False, repr=False)
class FilesOfPartition:
    _filesystem: pafs.FileSystem
    _directory: str

    def ranges(self) -> list[ArchivedRange]:
        try:
            infos = self._filesystem.get_file_info(pafs.FileSelector(self._directory, allow_not_found=True))
        except OSError as error:
            raise TableError(f"the archive's {self._directory} cannot be listed: {error}") from error
        return files_of(self._directory, (info.base_name for info in infos))

    def batches(
        self, archived: ArchivedRange, start: int, end: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        names = list(dict.fromkeys(["offset", *columns]))
        try:
            with self._opened(archived.place) as parquet:
                groups = _groups_with(parquet.metadata, "offset", start, end - 1)
                for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=names):
                    yield within(batch, start, end)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(archived, error) from error

    def first_since(self, time_ms: int) -> int | None:
        return next((offset for file in self.ranges() if (offset := self._since(file, time_ms)) is not None), None)

    def _since(self, file: ArchivedRange, time_ms: int) -> int | None:
        time_us = time_ms * _MICROSECONDS
        try:
            with self._opened(file.place) as parquet:
                for group in _groups_with(parquet.metadata, "timestamp", time_us, None):
                    rows = parquet.read_row_group(group, columns=["offset", "timestamp"])
                    if (offset := first_as_late(rows, time_us)) is not None:
                        return offset
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(file, error) from error
        return None

    def _opened(self, path: str) -> pq.ParquetFile:
        is_local = isinstance(self._filesystem, pafs.LocalFileSystem)
        return pq.ParquetFile(path, filesystem=self._filesystem, pre_buffer=not is_local)


def _unreadable(file: ArchivedRange, error: Exception) -> TableError:
    return TableError(f"{file.place} of the archive cannot be read: {error}")


def _groups_with(metadata: Any, column: str, low: int, high: int | None) -> list[int]:
    """Return the row groups that may have a value of a column between two, by their statistics."""
    at = metadata.schema.names.index(column)
    statistics = [metadata.row_group(number).column(at).statistics for number in range(metadata.num_row_groups)]
    return [
        number
        for number, values in enumerate(statistics)
        if values is None
        or not values.has_min_max
        or (values.max_raw >= low and (high is None or values.min_raw <= high))
    ]


def first_as_late(rows: pa.Table, time_us: int) -> int | None:
    """Return the first of the columns offset and timestamp that is as late as a time."""
    times = rows.column("timestamp").cast(type_of("timestamp")).cast(pa.int64()).to_numpy()
    late = np.flatnonzero(times >= time_us)
    return int(rows.column("offset")[int(late[0])].as_py()) if late.size else None


def within(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """Return the rows with offsets [start, end) of rows in their order."""
    offsets = batch.column("offset").to_numpy()
    if not len(offsets) or (offsets[0] >= start and offsets[-1] < end):
        return batch
    return batch.filter(pa.array((offsets >= start) & (offsets < end)))
