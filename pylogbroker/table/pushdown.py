"""Filter pushdown: what a filter of Arrow says about partitions, offsets and times that need not be read.

Arrow's own simplification decides: under a guarantee such as `offset < 5000`, can the filter hold? A search by halves
finds the last guarantee under which it cannot. So every filter counts that Arrow understands. A wrong bound is
impossible: without a proof, all is read.

| guarantee                         | what is not read                                                                 |
|-----------------------------------|----------------------------------------------------------------------------------|
| topic, partition = ...            | the partition                                                                    |
| offset < x, offset >= y           | records before x, from y on                                                      |
| timestamp < t                     | records before the first one that is as late as t; later ones may be early again |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs

from pylogbroker.table.bounds import ReadRange
from pylogbroker.table.columns import type_of

_FORMAT: Final = ds.ParquetFileFormat()
_FILES: Final = pa_fs.LocalFileSystem()
_TIMESTAMP: Final = type_of("timestamp")
_US_MAX: Final = 1 << 60


@attrs.frozen(eq=False, repr=False)
class FilterBounds:
    """A filter on columns of a schema."""

    _filter: Any
    _schema: pa.Schema
    _topic: str

    def columns(self) -> list[str]:
        """Return the columns that the filter uses."""
        return [name for name in self._schema.names if not self._does_without(name)]

    def narrowed(self, part: ReadRange) -> ReadRange:
        """Return the part of a range that may have rows of the filter, perhaps none."""
        of_partition = ds.field("partition") == part.partition
        if "topic" in self._schema.names:
            of_partition &= ds.field("topic") == self._topic
        if not self._may_hold(of_partition):
            return attrs.evolve(part, end=part.start)
        offset = ds.field("offset")
        start = _last(part.start, part.end, lambda bound: not self._may_hold(of_partition & (offset <= bound - 1)))
        end = _first(start, part.end, lambda bound: not self._may_hold(of_partition & (offset >= bound)))
        return attrs.evolve(part, start=start, end=end)

    def since_ms(self) -> int | None:
        """Return the time before which no row has a timestamp; None without such a time."""
        timestamp = ds.field("timestamp")
        if self._may_hold(timestamp.is_null()):
            return None

        def is_late(bound: int) -> bool:
            return not self._may_hold(timestamp < pa.scalar(bound, _TIMESTAMP))

        since_us = _last(0, _US_MAX, is_late)
        return since_us // 1000 or None

    def _may_hold(self, guarantee: Any) -> bool:
        fragment = _FORMAT.make_fragment("none", filesystem=_FILES, partition_expression=guarantee)
        dataset = ds.FileSystemDataset([fragment], self._schema, _FORMAT, _FILES)
        return any(True for _ in dataset.get_fragments(filter=self._filter))

    def _does_without(self, column: str) -> bool:
        others = self._schema.remove(self._schema.get_field_index(column))
        try:
            pa.RecordBatch.from_pylist([], others).filter(self._filter)
        except (pa.ArrowInvalid, KeyError):
            return False
        return True


def narrowed_ranges(pushdown: FilterBounds, ranges: Iterable[ReadRange]) -> list[ReadRange]:
    return [smaller for part in ranges if len(smaller := pushdown.narrowed(part))]


def _last(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the last bound in [low, high] up to which a condition holds; `low` needs no proof."""
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the first bound in [low, high] from which a condition holds; `high` needs no proof."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high
