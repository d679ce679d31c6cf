"""Archives in tables of Iceberg that are read.

The files of a partition are read in the order of their offsets, one after the other. Files whose offsets overlap, such
as those that another tool has rewritten, are read together and sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import attrs
import numpy as np
import pyarrow as pa
from pyiceberg import expressions
from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import DataScan, FileScanTask, Table
from pyiceberg.types import LongType

from pylogbroker.errors import ConfigError, PylogbrokerError
from pylogbroker.table.archive.iceberg import ArchivedOffsets, catalog_of
from pylogbroker.table.archive.layout import ArchivedRange, id_text
from pylogbroker.table.archive.parquet_archive import first_as_late, within
from pylogbroker.table.errors import TableError

_at_least: Any = expressions.GreaterThanOrEqual  # PyIceberg's types of their arguments are those of pydantic
_below: Any = expressions.LessThan
_equal: Any = expressions.EqualTo
_BATCH_ROWS: Final = 18_000
_MICROSECONDS: Final = 1000
_OFFSETS: Final = (0, (1 << 63) - 1)


@attrs.frozen(eq=False, repr=False)
class IcebergArchive:
    place: str
    _catalog: Catalog
    _name: str

    @classmethod
    def of(cls, place: str) -> IcebergArchive:
        """Return the table at a place; raise ConfigError without one, or TableError."""
        archive = cls(place, *catalog_of(place))
        archive.table()
        return archive

    def table(self) -> Table:
        """Return the table as it is now."""
        try:
            return self._catalog.load_table(self._name)
        except NoSuchTableError:
            raise ConfigError(
                f"archive: the catalog has no table {self._name}; expected the one of the policy archive-parquet"
            ) from None
        except Exception as error:  # of PyIceberg and its catalogs, which have many types
            raise TableError(f"{self.place} cannot be read: {error}") from error

    def partition(self, topic: str, topic_id: UUID, partition: int) -> RowsOfPartition:
        return RowsOfPartition(self, topic, id_text(topic_id), partition)


@attrs.frozen(eq=False, repr=False)
class RowsOfPartition:
    _archive: IcebergArchive
    _topic: str
    _topic_id: str
    _partition: int

    def ranges(self) -> list[ArchivedRange]:
        """Return the ranges between the gaps."""
        properties = self._archive.table().properties
        offsets = ArchivedOffsets.of(properties, f"{self._topic}.{self._topic_id}.{self._partition}")
        if offsets.end < 0:
            return []
        bounds = [offsets.start, *(bound for gap in offsets.gaps for bound in gap), offsets.end]
        return [ArchivedRange(*pair, self._archive.place) for pair in zip(bounds[::2], bounds[1::2], strict=True)]

    def batches(
        self, archived: ArchivedRange, start: int, end: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        of_offsets = expressions.And(_at_least("offset", start), _below("offset", end))
        for rows in self._groups(of_offsets, ("offset", *columns)):
            for batch in rows.to_batches(_BATCH_ROWS):
                yield within(batch, start, end)

    def first_since(self, time_ms: int) -> int | None:
        time_us = time_ms * _MICROSECONDS
        is_late = _at_least("timestamp", time_us)
        groups = self._groups(is_late, ("offset", "timestamp"))
        return next((offset for rows in groups if (offset := first_as_late(rows, time_us)) is not None), None)

    def _groups(self, condition: expressions.BooleanExpression, columns: Iterable[str]) -> Iterator[pa.Table]:
        """Yield the rows of a condition in the order of offsets, those of a file or of overlapping files at a time."""
        place = (("topic", self._topic), ("topic_id", self._topic_id), ("partition", self._partition))
        for name, value in place:
            condition = expressions.And(condition, _equal(name, value))
        scan = self._archive.table().scan(row_filter=condition, selected_fields=tuple(dict.fromkeys(columns)))
        try:
            groups = groups_in_order(scan)
        except Exception as error:  # of PyIceberg and its file systems, which have many types
            raise self._unreadable(error) from error
        for tasks in groups:
            yield self._rows(scan, tasks)

    def _rows(self, scan: DataScan, tasks: Sequence[FileScanTask]) -> pa.Table:
        try:
            reader = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter)
            rows: pa.Table = reader.to_table(tasks)
        except PylogbrokerError:
            raise
        except Exception as error:  # of PyIceberg and its file systems, which have many types
            raise self._unreadable(error) from error
        offsets = rows.column("offset").to_numpy()
        return rows if np.all(offsets[:-1] <= offsets[1:]) else rows.sort_by("offset")

    def _unreadable(self, error: Exception) -> TableError:
        return TableError(f"{self._archive.place} cannot be read: {type(error).__name__}: {error}")


def groups_in_order(scan: DataScan) -> list[list[FileScanTask]]:
    """Return the files of a scan in the order of offsets; those that overlap are together."""
    field = scan.table_metadata.schema().find_field("offset").field_id
    bounded = sorted(((_bounds(task, field), task) for task in scan.plan_files()), key=lambda pair: pair[0])
    groups: list[list[FileScanTask]] = []
    end = -1
    for (first, last), task in bounded:
        if first > end:
            groups.append([])
        groups[-1].append(task)
        end = max(end, last)
    return groups


def _bounds(task: FileScanTask, field: int) -> tuple[int, int]:
    """Return the first and the last offset of a file; all that there are without statistics."""
    both: tuple[Any, Any] = (task.file.lower_bounds, task.file.upper_bounds)
    first, last = (
        default if bounds is None or field not in bounds else int(from_bytes(LongType(), bounds[field]))
        for bounds, default in zip(both, _OFFSETS, strict=True)
    )
    return first, last
