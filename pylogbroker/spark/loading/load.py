"""Load topics into Parquet files incrementally, by Spark's tasks.

    loaded = load(spark, "one:9092", "clicks", "/data/clicks")
    loaded.frame.groupBy("topic").count().show()

The work of the driver and of two tasks:

    driver     lock, recover files of a crash, plan ..... collect published files, write the manifest ..... done
    task               |---- fill: file, file, file ----|
    task               |---- fill: file, file ----|

A load continues one that ended early: its published files count, others are deleted. Only committed records are loaded,
by default (kafka.isolation.level).
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa

from pylogbroker.config.times import Time, milliseconds
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.spark.loading.job import LoadJob, Outcome, manifest_of
from pylogbroker.spark.loading.manifest import Manifest, ManifestEntry
from pylogbroker.spark.loading.mappings import RowMapping, mapped
from pylogbroker.spark.loading.parquet import COMPRESSION, FILE_SIZE, FileLayout, unpacked
from pylogbroker.spark.loading.planner import Window
from pylogbroker.spark.loading.progress import Report, reporting
from pylogbroker.spark.loading.scheduler import schedule
from pylogbroker.spark.loading.store import Store
from pylogbroker.spark.loading.task import TaskParameters
from pylogbroker.spark.options import ReadOptions
from pylogbroker.spark.options.raw import log_warnings
from pylogbroker.table.decoder import TYPES, columns_with

if TYPE_CHECKING:
    from pyspark import errors
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.pandas import types
else:
    errors = on_first_use("pyspark.errors")
    types = on_first_use("pyspark.sql.pandas.types")

_OPTIONS: Final = ("includeheaders", "failondataloss", "minpartitions", "maxrecordsperpartition")
_MORE_OPTIONS: Final = ("kafka.", "fetchoffset.", "kafkaconsumer.")
_COMPRESSIONS: Final = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
_WEEK: Final = 7 * 86400.0

TopicSelection = str | Iterable[str] | re.Pattern[str]


@attrs.frozen
class Loaded:
    """Result of a load; rows of all loads."""

    spark: SparkSession
    store: Store
    outcome: Outcome
    seconds: float

    @property
    def frame(self) -> DataFrame:
        """Rows of this and earlier loads."""
        return _frame(self.spark, self.store, self.outcome.manifest)

    @property
    def records(self) -> int:
        """Rows of this load."""
        return sum(entry.records for entry in self.outcome.entries)

    @property
    def bytes(self) -> int:
        """Size of this load's files."""
        return sum(entry.bytes for entry in self.outcome.entries)

    @property
    def files(self) -> int:
        return sum(entry.path is not None for entry in self.outcome.entries)

    @property
    def lag(self) -> int:
        """Offsets in the logs not loaded; 0 after a replay."""
        return self.outcome.lag

    @property
    def gaps(self) -> tuple[ManifestEntry, ...]:
        """Ranges found deleted, or skipped."""
        return self.outcome.gaps


def load(
    spark: SparkSession,
    bootstrap_servers: str,
    topics: TopicSelection,
    target: str | os.PathLike[str],
    *,
    since: Time | None = None,
    until: Time | None = None,
    replay: bool = False,
    mapping: RowMapping | None = None,
    options: Mapping[str, str] | None = None,
    file_size: int = FILE_SIZE,
    compression: str = COMPRESSION,
    keep_replaced: float = _WEEK,
    progress: bool | Report = False,
) -> Loaded:
    """Load new records of topics (names, or a pattern) into Parquet files in a directory.

    `since` and `until` are times (`config.times`). Rows before `since` are dropped; loading ends before the first row
    at or after `until`. `replay` reloads files that overlap this window, and replaces them when complete; old files
    remain for `keep_replaced` seconds. `mapping` computes other columns (`loading.mappings`). `options` are the
    source's kafka.*, includeHeaders, failOnDataLoss, minPartitions, maxRecordsPerPartition, fetchOffset.* and
    kafkaConsumer.*. `file_size` is in bytes. `progress` is true for a bar, or a callback for each Progress.

    An interruption (Ctrl-C) stops the tasks and keeps published files. Raise ConfigError for invalid arguments,
    DataLost, TargetInUse, LoadFailed if tasks failed, OSError if the directory cannot be written, and the brokers'
    errors.
    """
    began = time.monotonic()
    given = _given(bootstrap_servers, topics, options or {})
    parsed = ReadOptions.parse(given, streaming=False)
    log_warnings(parsed.warnings)
    window = Window(milliseconds("since", since), milliseconds("until", until))
    store = Store.of(target)
    schema = _schema(parsed, mapping)
    _check_for_spark(schema)
    job = TaskParameters(
        given, store.target, 0, {}, schema, mapping, _layout(file_size, compression), uuid.uuid4().hex[:8]
    )
    if not hasattr(spark, "sparkContext"):
        raise ConfigError("a session of Spark Connect cannot load: use a session whose driver runs in this process")
    with store.locked(), reporting(progress, store.name) as report:
        run = LoadJob(store, job, parsed, window, partial(schedule, spark), report, keep_replaced)
        outcome = run.replay() if replay else run.load()
    return Loaded(spark, store, outcome, time.monotonic() - began)


def loaded(spark: SparkSession, target: str | os.PathLike[str]) -> DataFrame:
    """Return everything loaded into a directory."""
    store = Store.of(target)
    return _frame(spark, store, manifest_of(store))


def _frame(spark: SparkSession, store: Store, manifest: Manifest) -> DataFrame:
    schema = types.from_arrow_schema(unpacked(manifest.arrow), prefer_timestamp_ntz=True)
    paths = paths_of(store, manifest)
    return spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)


def paths_of(store: Store, manifest: Manifest) -> list[str]:
    return [_for_spark(f"{store.uri}/{entry.path}") for entry in manifest.files()]


def _for_spark(path: str) -> str:
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)


def _given(bootstrap_servers: str, topics: TopicSelection, options: Mapping[str, str]) -> dict[str, str]:
    for name in options:
        is_known = name.lower() in _OPTIONS or name.lower().startswith(_MORE_OPTIONS)
        if not is_known or name.lower() == "kafka.bootstrap.servers":
            raise ConfigError(
                f"option {name} has no meaning for a load; accepted are kafka.*, includeHeaders, failOnDataLoss,"
                " minPartitions, maxRecordsPerPartition, fetchOffset.* and kafkaConsumer.*"
            )
    given = {"kafka.isolation.level": "read_committed", **options, "kafka.bootstrap.servers": bootstrap_servers}
    if isinstance(topics, re.Pattern):
        return {**given, "subscribePattern": topics.pattern}
    return {**given, "subscribe": topics if isinstance(topics, str) else ",".join(topics)}


def _layout(file_size: int, compression: str) -> FileLayout:
    if isinstance(file_size, bool) or not isinstance(file_size, int) or file_size < 1:
        raise ConfigError(f"file_size: {file_size!r} is not accepted; expected a number of bytes of at least 1")
    if compression not in _COMPRESSIONS:
        raise ConfigError(f"compression: {compression!r} is not accepted; expected one of {', '.join(_COMPRESSIONS)}")
    return FileLayout(file_size, compression)


def _schema(options: ReadOptions, mapping: RowMapping | None) -> pa.Schema:
    """Return the files' columns, by calling the mapping with no rows."""
    columns = pa.schema([(name, TYPES[name]) for name in columns_with(headers=options.include_headers)])
    nothing = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in columns], schema=columns)
    schema = columns if mapping is None else mapped(mapping, nothing).schema
    if not len(schema):
        raise ConfigError("the mapping returns no columns")
    for field in schema:
        if any(map(pa.types.is_null, _leaves(field.type))):
            raise ConfigError(
                f"the mapping returns a column {field.name} of the type {field.type} for no rows: its type must always"
                " be the same, so pass the type to the array, as in pa.array(found, pa.string())"
            )
    return schema


def _check_for_spark(schema: pa.Schema) -> None:
    names = [name.lower() for name in schema.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"the mapping returns two columns {', '.join(twice)}, which Spark cannot distinguish")
    for field in schema:
        if not all(map(_is_readable, _leaves(field.type))):
            raise ConfigError(
                f"the mapping returns a column {field.name} of the type {field.type}, which Spark cannot read from"
                " Parquet files: cast it, e.g. times to pa.timestamp('us') and unsigned integers to pa.int64()"
            )


def _is_readable(kind: pa.DataType) -> bool:
    try:
        types.from_arrow_type(kind)
    except errors.PySparkException:
        return False
    is_too_fine = pa.types.is_timestamp(kind) and kind.unit == "ns"
    return not (is_too_fine or pa.types.is_time(kind) or pa.types.is_decimal256(kind))


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    if not kind.num_fields:
        yield kind
    for number in range(kind.num_fields):
        yield from _leaves(kind.field(number).type)
