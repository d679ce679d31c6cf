"""Reading a batch: partitions of topics between two offsets, as Arrow rows.

    driver    BatchReader.pushFilters, partitions     which slices there are
    task      BatchReader.read                        the rows of one slice

The reader is pickled and goes from one to the other.  Spark plans a DataFrame once, however often it is used, so that
it has the same rows each time: what comes later is in the next `load()`.

Filters are pushed down if spark.sql.python.filterPushdown.enabled is set and the option `pushFilters` is true.  It is
not by default, because Spark (4.2 and 4.3) reads what the filters left of a DataFrame wherever else that DataFrame is
used, without them or with others: each use needs a `load()` of its own.  Spark refuses a reader that has `pushFilters`
while its setting is off, and does not say to the source whether it is.  But it asks for filters in a process of their
own, which runs a module of its own: there, and only there, it gets a FilteringReader.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from pylogbroker.client.errors import OutOfRange
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.records.columns import AbortedTransactions
from pylogbroker.spark.brokers.cluster import Cluster
from pylogbroker.spark.brokers.fetching import PartitionFetcher
from pylogbroker.spark.garbage import freeze_what_is_there
from pylogbroker.spark.options import ReadOptions
from pylogbroker.spark.options.given import tell
from pylogbroker.spark.options.positions import EARLIEST, LATEST
from pylogbroker.spark.reading.bounds import missing, offsets_for, partitions_for, refuse_missing
from pylogbroker.spark.reading.decoding import Decoder, columns_with
from pylogbroker.spark.reading.losses import lost
from pylogbroker.spark.reading.narrowing import Narrowing
from pylogbroker.spark.reading.planning import Slice, divide, slices
from pylogbroker.spark.reading.schema import check_schema

_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_LOSSES: Final = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class SlicePartition(InputPartition):
    """A slice, as Spark hands it to a task."""

    def __init__(self, value: Slice) -> None:
        super().__init__(value)


class BatchReader(DataSourceReader):
    """Reads what there is when the query is planned."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._narrowing = Narrowing()
        self.options = ReadOptions.parse(self._given, streaming=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"given": self._given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["given"])  # type: ignore[misc]

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType) -> BatchReader:
        """For the options and the schema of a query."""
        check_schema(given, schema)
        reader = BatchReader(given)
        is_filtering = _is_asked_for_filters() and reader.options.push_filters
        return FilteringReader(given) if is_filtering else reader

    def partitions(self) -> list[InputPartition]:
        """Called once, by the process that plans the query."""
        tell(self.options.warnings)
        with Cluster(self.options.settings) as cluster:
            cluster.reach()
            whole = _slices(cluster, self.options, self._narrowing)
        parts = divide(whole, self.options.min_partitions, self.options.max_records)
        return [SlicePartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Called in each task."""
        part: Slice | None = partition.value
        if part is None:  # Spark's way to say that there are no partitions
            return iter(())
        return rows_of(self.options, part, from_earliest=_is_from_earliest(self.options, part))


class FilteringReader(BatchReader):
    """The same, for queries whose filters leave something out."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Called before `partitions`; gives back what Spark has to look at itself."""
        self._narrowing, left = Narrowing.of(filters)
        return left


def _is_asked_for_filters() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING in sys.modules or (main is not None and main.name == _PUSHING)


def _slices(cluster: Cluster, options: ReadOptions, narrowing: Narrowing) -> list[Slice]:
    """What is read of each partition. Starts are learned first: what comes meanwhile may be behind the end else."""
    found = partitions_for(cluster, options.topics)
    refuse_missing(missing(cluster, options.topics, found))
    start = offsets_for(cluster, options.start, found, starting=True, latest_if_none=options.latest_if_none)
    end = offsets_for(cluster, options.end, found, starting=False)
    _check_order(options, start, end)
    taken = [each for each in slices(start, end) if narrowing.takes((each.topic, each.partition))]
    since = _since(cluster, taken, narrowing.since)
    narrowed = [narrowing.of_slice(each, since) for each in taken]
    return [each for each in narrowed if len(each)]


def _since(cluster: Cluster, taken: Iterable[Slice], time: int | None) -> dict[TopicPartition, int]:
    if time is None:
        return {}
    ends = {(each.topic, each.partition): each.end for each in taken}
    found = cluster.offsets(dict.fromkeys(ends, time)) if ends else {}
    return {key: each.offset if each.offset >= 0 else ends[key] for key, each in found.items()}


def _check_order(options: ReadOptions, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    for (topic, number), first in sorted(start.items()):
        last = end[topic, number]
        if last >= first:
            continue
        what = f"{topic}/{number} is to be read from offset {first}, but "
        if options.end != LATEST:
            raise ConfigError(f"{what}up to {last}, which is before")
        lost(options.fail_on_data_loss, f"{what}ends at {last}")


def _is_from_earliest(options: ReadOptions, part: Slice) -> bool:
    if isinstance(options.start, Mapping):
        return options.start.get((part.topic, part.partition)) == EARLIEST
    return options.start == EARLIEST


def rows_of(options: ReadOptions, part: Slice, *, from_earliest: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of a slice; DataLost if some of it is gone, unless that is allowed.

    If what was asked for is whatever there is `from_earliest`, then what goes before the slice is read is no loss.
    """
    start: int | None = part.start
    with Cluster(options.settings) as cluster:
        while start is not None:
            try:
                yield from _rows(cluster, options, attrs.evolve(part, start=start))
                return
            except KafkaError as error:
                if error.code not in _LOSSES:
                    raise
                if not (from_earliest and _has_not_begun(error, part)):
                    lost(options.fail_on_data_loss, str(error), error)
                start = _next_start(error, part)
            finally:
                freeze_what_is_there()


def _has_not_begun(error: KafkaError, part: Slice) -> bool:
    return isinstance(error, OutOfRange) and part.start == error.offset < error.first


def _next_start(error: KafkaError, part: Slice) -> int | None:
    """What is left behind the gap, if anything is; the same offset, if by now the log has it."""
    if not isinstance(error, OutOfRange):
        return None
    following = max(error.offset, error.first)
    return following if following < min(part.end, error.end) else None


def _rows(cluster: Cluster, options: ReadOptions, part: Slice) -> Iterator[pa.RecordBatch]:
    decoder = Decoder(part.topic, part.partition, columns_with(headers=options.include_headers))
    fetcher = PartitionFetcher(cluster, part.topic, part.partition, part.start, part.end, patience=options.patience)
    check = options.settings.boolean("check.crcs")
    for fetched in fetcher:
        aborted = None if fetched.aborted is None else AbortedTransactions(fetched.aborted)
        for decoded in decoder.decode(fetched.records, fetched.position, part.end, aborted, check=check):
            if decoded.rows.num_rows:
                yield decoded.rows
