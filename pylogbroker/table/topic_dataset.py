"""A topic as a dataset of Arrow, for engines that push columns and filters into what they scan: DuckDB, Polars.

    topic = dataset("orders", bootstrap_servers="127.0.0.1:9092", value="text")
    duckdb.sql("SELECT count(*) FROM topic WHERE timestamp > now() - INTERVAL 1 HOUR")

Engines know a dataset by its class, and ask it for a scanner. Each scan reads the records that exist when it begins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from pylogbroker.errors import PylogbrokerError
from pylogbroker.table.bounds import Bound
from pylogbroker.table.columns import COLUMNS, DECODED, ColumnSelection
from pylogbroker.table.contents import OnError
from pylogbroker.table.pushdown import FilterBounds, narrowed_ranges
from pylogbroker.table.reading import TopicScan, scan_of, source_of
from pylogbroker.table.topic_source import RawRows, ReadPlan, settings_of

if TYPE_CHECKING:
    from pylogbroker.table.archive.archives import ReadableArchive


@attrs.define(eq=False, repr=False)
class ScanObserver:
    """Receives how many offsets a scan is about to read, and how many it has passed; keeps errors of scans.

    An engine wraps an error of a scan in one of its own, with a stack trace for a text.
    """

    planned: Callable[[int], object] = lambda count: None
    passed: Callable[[int], object] = lambda count: None
    errors: list[PylogbrokerError] = attrs.field(factory=list)

    def kept(self, error: PylogbrokerError) -> PylogbrokerError:
        """Return an error to raise, without its stack trace."""
        self.errors.append(error)
        return error.with_traceback(None)


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """Dataset of one topic."""

    def __init__(
        self,
        scan: TopicScan,
        partitions: Iterable[int] | None = None,
        start: Bound = "earliest",
        end: Bound = "latest",
        observer: ScanObserver | None = None,
    ) -> None:
        self._scan = scan
        self._partitions = None if partitions is None else list(partitions)
        self._start, self._end = start, end
        self._observer = observer or ScanObserver()
        self._is_sampled = False

    @property
    def schema(self) -> pa.Schema:
        self.sample()
        return self._scan.schema

    def sample(self) -> None:
        """Infer types from a sample, once, if a form needs it. Engines wrap its errors in errors of their own."""
        if not self._is_sampled and self._scan.contents.sampled:
            self._scan.sample(self.plan())
            self._is_sampled = True

    def plan(self) -> ReadPlan:
        """Return what there is to read now."""
        return self._scan.source.plan(self._partitions, self._start, self._end)

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **ignored: object) -> TopicScanner:
        """Return a scan of some columns of the rows that a filter takes.

        Other arguments of Arrow's scanners, such as sizes of batches, only hint at how to read.
        """
        try:
            schema = self.schema
            names = schema.names if columns is None else list(columns)
            return TopicScanner(self._scan, self.plan(), names, filter, schema, self._observer)
        except PylogbrokerError as error:
            raise self._observer.kept(error) from None


class TopicScanner:
    """One scan, with the methods of Arrow's scanners that engines call."""

    def __init__(
        self,
        scan: TopicScan,
        plan: ReadPlan,
        names: Sequence[str],
        condition: Any,
        schema: pa.Schema,
        observer: ScanObserver,
    ) -> None:
        self.dataset_schema = schema
        self.projected_schema = pa.schema([schema.field(name) for name in names])
        self._names, self._filter, self._observer = list(names), condition, observer
        pushdown = None if condition is None else FilterBounds(condition, schema, scan.source.topic)
        of_filter = [] if pushdown is None else pushdown.columns()
        self._filters_raw = not any(name in DECODED for name in of_filter)
        selection = ColumnSelection.of([*dict.fromkeys([*names, *of_filter])] or ["offset"])
        self._scan = scan.of(selection)
        self._of_filter = of_filter
        self._plan = plan if pushdown is None else self._narrowed(plan, pushdown)

    def _narrowed(self, plan: ReadPlan, pushdown: FilterBounds) -> ReadPlan:
        ranges = narrowed_ranges(pushdown, plan.ranges)
        since_ms = pushdown.since_ms() if ranges else None
        if since_ms is not None:
            offsets = self._scan.source.first_offsets(attrs.evolve(plan, ranges=tuple(ranges)), since_ms)
            late = ((part, offsets[part.partition]) for part in ranges)
            ranges = [attrs.evolve(part, start=max(part.start, first)) for part, first in late if first >= 0]
        return attrs.evolve(plan, ranges=tuple(part for part in ranges if len(part)))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        self._observer.planned(len(self._plan))
        try:
            for raw in self._scan.raw(self._plan):
                rows = self._filtered(raw)
                if rows.num_rows:
                    yield rows
        except PylogbrokerError as error:
            raise self._observer.kept(error) from None

    def _filtered(self, raw: RawRows) -> pa.RecordBatch:
        self._observer.passed(raw.passed)
        if self._filter is None:
            return self._scan.batch(raw).select(self._names)
        if not self._filters_raw:
            return self._scan.batch(raw).filter(self._filter).select(self._names)
        keep = self._scan.of(ColumnSelection.of(self._of_filter or ["offset"])).batch(raw)
        chosen = _matching(keep, self._filter)
        return self._scan.batch(raw.taken(chosen)).select(self._names)

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        return self.to_reader().read_all()

    def head(self, count: int) -> pa.Table:
        """Return the first rows; the rest is not read."""
        batches: list[pa.RecordBatch] = []
        for rows in self.to_batches():
            if count <= 0:
                break
            batches.append(rows.slice(0, count))
            count -= batches[-1].num_rows
        return pa.Table.from_batches(batches, self.projected_schema)

    def count_rows(self) -> int:
        return sum(rows.num_rows for rows in self.to_batches())


def _matching(rows: pa.RecordBatch, condition: Any) -> pa.Array:
    """Return the positions of the rows that a filter takes."""
    numbered = rows.append_column(_POSITION, pa.array(np.arange(rows.num_rows)))
    return numbered.filter(condition).column(_POSITION)


_POSITION = "position of the row"


def dataset(
    topic: str,
    *,
    bootstrap_servers: str | Sequence[str],
    start: Bound = "earliest",
    end: Bound = "latest",
    partitions: Iterable[int] | None = None,
    key: str = "binary",
    value: str = "binary",
    key_schema: object = None,
    value_schema: object = None,
    schema_registry: str | Mapping[str, str] | None = None,
    on_error: OnError = "raise",
    committed: bool = True,
    archive: str | os.PathLike[str] | ReadableArchive | None = None,
    settings: Mapping[str, Any] | None = None,
    observer: ScanObserver | None = None,
) -> TopicDataset:
    """Return a topic as a dataset of Arrow with all columns; the arguments are those of `read_batches`."""
    source = source_of(settings_of(bootstrap_servers, settings or {}, committed=committed), topic, archive)
    scan = scan_of(source, COLUMNS, (key, value), (key_schema, value_schema), schema_registry, on_error)
    return TopicDataset(scan, partitions, start, end, observer)
