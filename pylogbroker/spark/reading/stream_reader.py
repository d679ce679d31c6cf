"""Stream reader: micro-batches planned by the driver and read by tasks.

A stream offset has the format of Spark's own source. Extra keys with "/", so no topic names, hold the topics' ids, and
the starts of partitions that do not continue the previous batch:

    {"events": {"0": 23, "1": 42}, "/id/events/4c0b...": {}, "/start": {"events": {"1": 0}}}

    initialOffset   {}                                   called more than once, so it must be constant
    latestOffset    {..., "/start": {...}}               first batch: its starts are now in Spark's log
    latestOffset    {...}                                later batches

So starts are logged before reads. A first offset without partitions has "/start", too: {} marks a query's beginning. A
repeated batch has the same slices: they depend on these offsets alone. A task reads nothing of a topic with another id.

An id is in a key's text: to Spark's own source and earlier versions, the key is a topic without partitions. So they can
continue a query whose last offset has no "/start", and a query of theirs can continue here: it has no ids at first. But
Spark's own source must itself finish a first batch, and one with new partitions: it keeps or looks up their starts
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

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
from pylogbroker.spark.reading.micro_batches import MicroBatch, MicroBatches, Positions, TopicIds
from pylogbroker.spark.reading.schema import check_schema
from pylogbroker.spark.reading.slices import divide, slices
from pylogbroker.wire import NO_ID

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_START: Final = "/start"
_ID: Final = "/id/"


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
        if not start:
            return offset_of(progress.first(most))
        step = progress.next(_positions_of(start), _ids_of(start), most, everything)
        return start if step is None else offset_of(step)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends, from which Spark reports the lag."""
        return _json(self._driving().ends) or None

    def prepareForTriggerAvailableNow(self) -> None:
        self._driving().stop_at_latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begins, ends = {**_positions_of(start), **_positions_of(end.get(_START, {}))}, _positions_of(end)
        if ends.keys() - begins.keys():
            raise ConfigError(
                f"the checkpoint does not say where {named(ends.keys() - begins.keys())} begins: another source"
                " planned its last batch. Let the query finish that batch with that source first"
            )
        parts = divide(slices(begins, ends), self._options.min_partitions, self._options.max_records)
        ids = _ids_of(end)
        return [SlicePartition(part, ids.get(part.topic, NO_ID)) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        topic_id = partition.topic_id if isinstance(partition, SlicePartition) else NO_ID
        return rows_of(self._options, partition.value, topic_id)

    def stop(self) -> None:
        """Close the connections. If Spark does not call this, they end with the process."""
        if self._progress is not None:
            self._progress.close()

    def _driving(self) -> MicroBatches:
        if self._progress is None:
            log_warnings(self._options.warnings)
            self._progress = MicroBatches(self._options)
        return self._progress


def _positions_of(offset: Mapping[str, Any]) -> Positions:
    """Return a stream offset's positions, without its extra keys."""
    return {
        (topic, int(number)): position
        for topic, numbers in offset.items()
        if not topic.startswith("/")
        for number, position in numbers.items()
    }


def _ids_of(offset: Mapping[str, Any]) -> TopicIds:
    """Return a stream offset's topic ids; raise ConfigError for one that is damaged."""
    ids = {}
    for key in offset:
        if key.startswith(_ID):
            topic, _, text = key.removeprefix(_ID).partition("/")
            try:
                ids[topic] = UUID(text)
            except ValueError:
                raise ConfigError(
                    f"the checkpoint has an invalid topic id, {key!r}: remove this member from the newest file in its"
                    " directory offsets, or begin with a new checkpoint"
                ) from None
    return ids


def offset_of(step: MicroBatch) -> dict[str, Any]:
    ids: dict[str, Any] = {f"{_ID}{topic}/{topic_id}": {} for topic, topic_id in sorted(step.ids.items())}
    has_start = step.begins or not step.ends
    return {**_json(step.ends), **ids, **({_START: _json(step.begins)} if has_start else {})}


def _json(positions: Positions) -> dict[str, dict[str, int]]:
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, number), position in sorted(positions.items()):
        by_topic.setdefault(topic, {})[str(number)] = position
    return by_topic
