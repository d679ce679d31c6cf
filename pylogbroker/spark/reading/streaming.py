"""Reading a stream: micro-batches of partitions' offsets, each planned by the driver and read by tasks.

The offset of a stream is that of Spark's own source, where the next batch begins in each partition.  One more key,
which cannot be a topic's name, says where partitions began that do not go on from the batch before:

    {"events": {"0": 23, "1": 42}, "/start": {"events": {"1": 0}}}

    initialOffset   {}                                   asked for more than once, so it must not say anything
    latestOffset    {..., "/start": {...}}               the first batch: where it began is now in Spark's log
    latestOffset    {...}                                the others

So the first batch may be empty: it is there to write down where reading begins, before anything is read.  The key is
there, too, when there are no partitions at all, since {} is how a query begins.  A batch that is run again has the same
slices, since they come from these offsets alone.  `progress` decides where batches end.

A query of Spark's own source goes on here from its checkpoint: these offsets are its own.  But that source keeps the
start of its first batch somewhere else, and looks up where new partitions begin; such a batch it has to finish itself.
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
from pylogbroker.spark.options.given import tell
from pylogbroker.spark.options.positions import named
from pylogbroker.spark.reading.batches import SlicePartition, rows_of
from pylogbroker.spark.reading.planning import divide, slices
from pylogbroker.spark.reading.progress import Positions, Progress, Step
from pylogbroker.spark.reading.schema import check_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_START: Final = "/start"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One lives as long as its query, in a process beside the driver; copies of it read, in tasks."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._options = ReadOptions.parse(self._given, streaming=True)
        self._progress: Progress | None = None

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType) -> StreamReader:
        """For the options and the schema of a query."""
        check_schema(given, schema)
        return cls(given)

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": self._given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_given"])  # type: ignore[misc]

    def initialOffset(self) -> dict[str, Any]:
        """Nothing: see above."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options ask for; both of them are looked at, whichever is told here."""
        limits = self._options.limits
        if limits.most is not None:
            return ReadMaxRows(limits.most)
        return ReadAllAvailable() if limits.least is None else ReadMinRows(limits.least)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends; `start` itself if there is to be none yet."""
        progress = self._driving()
        everything = isinstance(limit, ReadAllAvailable)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        step = progress.next(positions_of(start), most, everything) if start else progress.first(most)
        return start if step is None else offset_of(step)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the partitions end, for Spark's progress: what lies between is the lag."""
        return _json(self._driving().ends) or None

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on there is nothing new."""
        self._driving().stop_at_latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The slices of a micro-batch."""
        begins, ends = {**positions_of(start), **positions_of(end.get(_START, {}))}, positions_of(end)
        if ends.keys() - begins.keys():
            raise ConfigError(
                f"the checkpoint does not say where {named(ends.keys() - begins.keys())} begins: another source has"
                " planned its last batch, so let the query finish that batch with that source first"
            )
        parts = divide(slices(begins, ends), self._options.min_partitions, self._options.max_records)
        return [SlicePartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Called in each task."""
        return rows_of(self._options, partition.value)

    def stop(self) -> None:
        """Spark may not call it: the connections end with the process at the latest."""
        if self._progress is not None:
            self._progress.close()

    def _driving(self) -> Progress:
        if self._progress is None:
            tell(self._options.warnings)
            self._progress = Progress(self._options)
        return self._progress


def positions_of(offset: Mapping[str, Any]) -> Positions:
    """Where each partition goes on."""
    return {
        (topic, int(number)): position
        for topic, numbers in offset.items()
        if topic != _START
        for number, position in numbers.items()
    }


def offset_of(step: Step) -> dict[str, Any]:
    """What Spark keeps of the end of a micro-batch."""
    has_start = step.begins or not step.ends
    return {**_json(step.ends), **({_START: _json(step.begins)} if has_start else {})}


def _json(positions: Positions) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, number), position in sorted(positions.items()):
        found.setdefault(topic, {})[str(number)] = position
    return found
