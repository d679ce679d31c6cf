"""Stream reader: micro-batches planned by the driver and read by tasks.

A stream offset has the format of Spark's own source. An extra key, "/start", no possible topic name, holds the starts
of partitions that do not continue the previous batch:

    {"events": {"0": 23, "1": 42}, "/start": {"events": {"1": 0}}}

    initialOffset   {}                                   called more than once, so it must be constant
    latestOffset    {..., "/start": {...}}               first batch: its starts are now in Spark's log
    latestOffset    {...}                                later batches

So starts are logged before reads. "/start" is always present: {} marks a query's beginning. A repeated batch has the
same slices: they depend on these offsets alone.

A query of Spark's own source can continue here. But that source must itself finish a first batch, and one with new
partitions: it keeps or looks up their starts elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pylogbroker.errors import ConfigError
from pylogbroker.spark.options import ReadOptions
from pylogbroker.spark.options.positions import named
from pylogbroker.spark.options.raw import log_warnings
from pylogbroker.spark.reading.batch_reader import SlicePartition, rows_of
from pylogbroker.spark.reading.micro_batches import MicroBatch, MicroBatches, Positions
from pylogbroker.spark.reading.schema import check_schema
from pylogbroker.spark.reading.slices import divide, slices

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_START: Final = "/start"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream reader: one instance in a process next to the driver, copies in tasks."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._options = ReadOptions.parse(self._given, streaming=True)
        self._progress: MicroBatches | None = None

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType) -> StreamReader:
        check_schema(given, schema)
        return cls(given)

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": self._given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_given"])  # type: ignore[misc]

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the options' limit; `MicroBatches` applies all, whichever is returned."""
        limits = self._options.limits
        if limits.most is not None:
            return ReadMaxRows(limits.most)
        return ReadAllAvailable() if limits.least is None else ReadMinRows(limits.least)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro-batch; `start` without one."""
        progress = self._driving()
        everything = isinstance(limit, ReadAllAvailable)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        step = progress.next(positions_of(start), most, everything) if start else progress.first(most)
        return start if step is None else offset_of(step)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends, from which Spark reports the lag."""
        return _json(self._driving().ends) or None

    def prepareForTriggerAvailableNow(self) -> None:
        self._driving().stop_at_latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begins, ends = {**positions_of(start), **positions_of(end.get(_START, {}))}, positions_of(end)
        if ends.keys() - begins.keys():
            raise ConfigError(
                f"the checkpoint does not say where {named(ends.keys() - begins.keys())} begins: another source"
                " planned its last batch. Let the query finish that batch with that source first"
            )
        parts = divide(slices(begins, ends), self._options.min_partitions, self._options.max_records)
        return [SlicePartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(self._options, partition.value)

    def stop(self) -> None:
        """Close the connections. If Spark does not call this, they end with the process."""
        if self._progress is not None:
            self._progress.close()

    def _driving(self) -> MicroBatches:
        if self._progress is None:
            log_warnings(self._options.warnings)
            self._progress = MicroBatches(self._options)
        return self._progress


def positions_of(offset: Mapping[str, Any]) -> Positions:
    """Return a stream offset's positions, without "/start"."""
    return {
        (topic, int(number)): position
        for topic, numbers in offset.items()
        if topic != _START
        for number, position in numbers.items()
    }


def offset_of(step: MicroBatch) -> dict[str, Any]:
    has_start = step.begins or not step.ends
    return {**_json(step.ends), **({_START: _json(step.begins)} if has_start else {})}


def _json(positions: Positions) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, number), position in sorted(positions.items()):
        found.setdefault(topic, {})[str(number)] = position
    return found
