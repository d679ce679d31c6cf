"""Batch reader: partitions of topics between two offsets, as Arrow rows.

    driver    BatchReader.pushFilters, partitions     plans the slices
    task      BatchReader.read                        reads the rows of one slice

Filters are pushed down if spark.sql.python.filterPushdown.enabled is set and the option `pushFilters` is true. By
default it is false: Spark (4.2 and 4.3) reuses the filtered plan for other uses of the DataFrame, so each needs its own
`load()`. With its setting off, Spark rejects a reader with `pushFilters`, and the source cannot read the setting. But
Spark asks for filters in a process with its own main module: only there does `of` return a FilteringReader.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.fetcher import PartitionFetcher
from pylogbroker.client.errors import OutOfRange, TopicRecreated
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.features import on_first_use
from pylogbroker.interfaces import TopicPartition
from pylogbroker.records.columnar import AbortedTransactions
from pylogbroker.spark.garbage import freeze_existing_objects
from pylogbroker.spark.options import ReadOptions
from pylogbroker.spark.options.positions import named
from pylogbroker.spark.options.raw import log_warnings
from pylogbroker.spark.reading.bounds import missing, offsets_for, partitions_for, reject_missing
from pylogbroker.spark.reading.filter_pushdown import FilterPushdown
from pylogbroker.spark.reading.losses import lost
from pylogbroker.spark.reading.schema import check_schema
from pylogbroker.spark.reading.slices import Slice, divide, slices
from pylogbroker.table.bounds import ReadRange
from pylogbroker.table.decoder import Decoder, columns_with
from pylogbroker.table.topic_source import ReadPlan
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from pylogbroker.table.archive import archives
    from pylogbroker.table.archive import source as archive_source
    from pylogbroker.table.archive.archives import ReadableArchive
else:
    archives = on_first_use("pylogbroker.table.archive.archives")
    archive_source = on_first_use("pylogbroker.table.archive.source")

_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_LOSSES: Final = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class SlicePartition(InputPartition):
    """A slice, and the id of the topic that it was planned for; NO_ID if unknown."""

    def __init__(self, value: Slice, topic_id: UUID = NO_ID) -> None:
        super().__init__(value)
        self.topic_id = topic_id


class BatchReader(DataSourceReader):
    """Read the records that exist at planning."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._narrowing = FilterPushdown()
        self.options = ReadOptions.parse(self._given, streaming=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"given": self._given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["given"])  # type: ignore[misc]

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType) -> BatchReader:
        check_schema(given, schema)
        reader = BatchReader(given)
        is_filtering = _is_asked_for_filters() and reader.options.push_filters
        return FilteringReader(given) if is_filtering else reader

    def partitions(self) -> list[InputPartition]:
        log_warnings(self.options.warnings)
        with _cluster(self.options) as cluster:
            cluster.reach()
            keys = partitions_for(cluster, self.options.topics)
            ids = cluster.topic_ids(topic for topic, _ in keys)
            whole = _slices(cluster, self.options, keys, self._narrowing)
        parts = divide(whole, self.options.min_partitions, self.options.max_records)
        return [SlicePartition(part, ids[part.topic]) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, SlicePartition):  # Spark passes another one without partitions
            return iter(())
        part = partition.value
        return rows_of(self.options, part, partition.topic_id, from_earliest=_is_from_earliest(self.options, part))


class FilteringReader(BatchReader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Return the filters that Spark must still apply. Called before `partitions`."""
        self._narrowing, left = FilterPushdown.of(filters)
        return left


def _cluster(options: ReadOptions) -> BlockingCluster:
    if options.archive is None:
        return BlockingCluster(options.settings)
    return archive_source.ArchivedCluster(options.settings, archives.open_archive(options.archive))


def _is_asked_for_filters() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING in sys.modules or (main is not None and main.name == _PUSHING)


def _slices(
    cluster: BlockingCluster, options: ReadOptions, partitions: list[TopicPartition], pushdown: FilterPushdown
) -> list[Slice]:
    """Return the slices. Starts are looked up first, or one could exceed its end."""
    reject_missing(missing(cluster, options.topics, partitions))
    start = offsets_for(cluster, options.start, partitions, starting=True, latest_if_none=options.latest_if_none)
    end = offsets_for(cluster, options.end, partitions, starting=False)
    _check_order(cluster, options, start, end)
    taken = [piece for piece in slices(start, end) if pushdown.takes((piece.topic, piece.partition))]
    since = _since(cluster, taken, pushdown.since)
    narrowed = [pushdown.of_slice(piece, since) for piece in taken]
    return [piece for piece in narrowed if len(piece)]


def _since(cluster: BlockingCluster, taken: Iterable[Slice], time: int | None) -> dict[TopicPartition, int]:
    if time is None:
        return {}
    ends = {(piece.topic, piece.partition): piece.end for piece in taken}
    offsets = cluster.offsets(dict.fromkeys(ends, time)) if ends else {}
    return {key: listed.offset if listed.offset >= 0 else ends[key] for key, listed in offsets.items()}


def _check_order(
    cluster: BlockingCluster,
    options: ReadOptions,
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> None:
    """Raise ConfigError for an end before its start, or DataLost if the log no longer has one of them."""
    reversed_keys = sorted(key for key, first in start.items() if end[key] < first)
    if not reversed_keys:
        return
    log_starts = cluster.offsets(dict.fromkeys(reversed_keys, EARLIEST))
    log_ends = cluster.offsets(dict.fromkeys(reversed_keys, LATEST))
    for key in reversed_keys:
        first, last, log_start, log_end = start[key], end[key], log_starts[key].offset, log_ends[key].offset
        what = f"{named([key])} is to be read from offset {first}"
        if first > log_end:
            lost(options.fail_on_data_loss, f"{what}, but ends at {log_end}")
        elif last < log_start:
            lost(options.fail_on_data_loss, f"{what} up to {last}, but begins at {log_start}")
        else:
            raise ConfigError(f"{what}, but up to {last}, which is before")


def _is_from_earliest(options: ReadOptions, part: Slice) -> bool:
    if isinstance(options.start, Mapping):
        return options.start.get((part.topic, part.partition)) == EARLIEST
    return options.start == EARLIEST


def rows_of(
    options: ReadOptions, part: Slice, topic_id: UUID = NO_ID, *, from_earliest: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield a slice's rows; raise DataLost if some are gone and `failOnDataLoss` is set.

    With `from_earliest`, records deleted before reading are no loss.
    """
    if options.archive is not None:
        yield from _archived_rows(options, part, topic_id, archives.open_archive(options.archive))
        return
    start: int | None = part.start
    with BlockingCluster(options.settings) as cluster:
        while start is not None:
            try:
                yield from _rows(cluster, options, attrs.evolve(part, start=start), topic_id)
                return
            except TopicRecreated as error:
                lost(options.fail_on_data_loss, f"{named([(part.topic, part.partition)])}: {error}", error)
                return
            except KafkaError as error:
                if error.code not in _LOSSES:
                    raise
                if not (from_earliest and _has_not_begun(error, part)):
                    lost(options.fail_on_data_loss, str(error), error)
                start = _next_start(error, part)
            finally:
                freeze_existing_objects()


def _archived_rows(
    options: ReadOptions, part: Slice, topic_id: UUID, archive: ReadableArchive
) -> Iterator[pa.RecordBatch]:
    source = archive_source.ArchivedTopicSource(options.settings, part.topic, archive)
    plan = ReadPlan((ReadRange(part.partition, part.start, part.end),), topic_id)
    try:
        for raw in source.rows(plan, columns_with(headers=options.include_headers)):
            yield raw.rows
    finally:
        freeze_existing_objects()


def _has_not_begun(error: KafkaError, part: Slice) -> bool:
    return isinstance(error, OutOfRange) and part.start == error.offset < error.first


def _next_start(error: KafkaError, part: Slice) -> int | None:
    """Return the first offset after a gap (unchanged if the log has it by now); None without records left."""
    if not isinstance(error, OutOfRange):
        return None
    following = max(error.offset, error.first)
    return following if following < min(part.end, error.end) else None


def _rows(cluster: BlockingCluster, options: ReadOptions, part: Slice, topic_id: UUID) -> Iterator[pa.RecordBatch]:
    decoder = Decoder(part.topic, part.partition, columns_with(headers=options.include_headers))
    fetcher = PartitionFetcher(
        cluster,
        part.topic,
        part.partition,
        part.start,
        part.end,
        topic_id=topic_id,
        stall_timeout=options.stall_timeout,
    )
    check = options.settings.boolean("check.crcs")
    for fetched in fetcher:
        aborted = None if fetched.aborted is None else AbortedTransactions(fetched.aborted)
        for decoded in decoder.decode(fetched.records, fetched.position, part.end, aborted, check=check):
            if decoded.rows.num_rows:
                yield decoded.rows
