"""Topics into Parquet files, by Spark's tasks: all of it, then again and again what is new.

    loaded = load(spark, "one:9092", "clicks", "/data/clicks")
    loaded.frame.groupBy("topic").count().show()

    driver     lock, take up what a crash left, plan ..... look at what is whole, write the manifest ..... done
    task               |---- fill: file, file, file ----|
    task               |---- fill: file, file ----|

There is no state but the files and the manifest (`manifest`).  A load that ended early, in whatever
way, is gone on with by the next one: files that are whole count, what else it left is deleted.  What is loaded is what
is committed, unless the option kafka.isolation.level says otherwise.
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

from pylogbroker.errors import ConfigError
from pylogbroker.spark.loading.filling import Job
from pylogbroker.spark.loading.manifest import Entry, Manifest
from pylogbroker.spark.loading.mapping import RowMapping, mapped
from pylogbroker.spark.loading.parquet import COMPRESSION, FILE_SIZE, Layout, unpacked
from pylogbroker.spark.loading.planning import Window
from pylogbroker.spark.loading.progress import Report, reporting
from pylogbroker.spark.loading.running import Outcome, Run, manifest_of
from pylogbroker.spark.loading.spreading import spread
from pylogbroker.spark.loading.store import Store
from pylogbroker.spark.loading.times import Time, milliseconds
from pylogbroker.spark.options import ReadOptions
from pylogbroker.spark.options.given import tell
from pylogbroker.spark.reading.decoding import TYPES, columns_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPTIONS: Final = ("includeheaders", "failondataloss", "minpartitions", "maxrecordsperpartition")
_MORE_OPTIONS: Final = ("kafka.", "fetchoffset.", "kafkaconsumer.")
COMPRESSIONS: Final = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
_WEEK: Final = 7 * 86400.0

Topics = str | Iterable[str] | re.Pattern[str]


@attrs.frozen
class Loaded:
    """What a load has done, and all that has been loaded so far."""

    spark: SparkSession
    store: Store
    outcome: Outcome
    seconds: float

    @property
    def frame(self) -> DataFrame:
        """All that has been loaded, now and before."""
        return _frame(self.spark, self.store, self.outcome.manifest)

    @property
    def records(self) -> int:
        """How many rows were loaded this time."""
        return sum(entry.records for entry in self.outcome.entries)

    @property
    def bytes(self) -> int:
        """The size of their files."""
        return sum(entry.bytes for entry in self.outcome.entries)

    @property
    def files(self) -> int:
        """The number of their files."""
        return sum(entry.path is not None for entry in self.outcome.entries)

    @property
    def lag(self) -> int:
        """How many offsets the logs have behind what is loaded; of a replay, 0."""
        return self.outcome.lag

    @property
    def gaps(self) -> tuple[Entry, ...]:
        """What was found this time not to be there any more, or was passed over."""
        return self.outcome.gaps


def load(
    spark: SparkSession,
    bootstrap_servers: str,
    topics: Topics,
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
    """Load what is new in topics (names, or a pattern that they match) into Parquet files in a directory.

    `since` and `until` are times (`loading.times`): only rows that are as late as the one, and as are before
    the first that is as late as the other.  `replay` loads again what is loaded of that window, whole files of it, and
    when all is there puts it in the place of what was; files that are replaced remain for `keep_replaced` seconds.
    `mapping` makes other columns of the rows (`loading.mapping`).  `options` are those of the source that
    have a meaning here: kafka.*, includeHeaders, failOnDataLoss, minPartitions, maxRecordsPerPartition, fetchOffset.*.
    `file_size` is in bytes.  `progress` is true for a bar, or is called with a Progress now and then.

    Interrupted, as by Ctrl-C, it stops its tasks and keeps what is whole.  Raises ConfigError for arguments that are
    wrong, DataLost, TargetInUse, LoadFailed if tasks failed, OSError where the directory cannot be written, and what
    the brokers answer.
    """
    began = time.monotonic()
    given = _given(bootstrap_servers, topics, options or {})
    parsed = ReadOptions.parse(given, streaming=False)
    tell(parsed.warnings)
    window = Window(milliseconds("since", since), milliseconds("until", until))
    store = Store.of(target)
    schema = _schema(parsed, mapping)
    _check_for_spark(schema)
    job = Job(given, store.target, 0, {}, schema, mapping, _layout(file_size, compression), uuid.uuid4().hex[:8])
    if not hasattr(spark, "sparkContext"):
        raise ConfigError("a session of Spark Connect cannot load: give one whose driver runs here")
    with store.locked(), reporting(progress, store.name) as report:
        run = Run(store, job, parsed, window, partial(spread, spark), report, keep_replaced)
        outcome = run.replay() if replay else run.load()
    return Loaded(spark, store, outcome, time.monotonic() - began)


def loaded(spark: SparkSession, target: str | os.PathLike[str]) -> DataFrame:
    """All that has been loaded into a directory, as a DataFrame; nothing is loaded now."""
    store = Store.of(target)
    return _frame(spark, store, manifest_of(store))


def _frame(spark: SparkSession, store: Store, manifest: Manifest) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(unpacked(manifest.arrow), prefer_timestamp_ntz=True)
    paths = paths_of(store, manifest)
    return spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)


def paths_of(store: Store, manifest: Manifest) -> list[str]:
    """The files that count, as Spark is told of them."""
    return [_for_spark(f"{store.uri}/{entry.path}") for entry in manifest.files()]


def _for_spark(path: str) -> str:
    """A path in which nothing stands for something else."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)


def _given(bootstrap_servers: str, topics: Topics, options: Mapping[str, str]) -> dict[str, str]:
    """The options of the source."""
    for name in options:
        known = name.lower() in _OPTIONS or name.lower().startswith(_MORE_OPTIONS)
        if not known or name.lower() == "kafka.bootstrap.servers":
            raise ConfigError(
                f"option {name} has no meaning for a load; those that have are kafka.*, includeHeaders, failOnDataLoss,"
                " minPartitions, maxRecordsPerPartition, fetchOffset.* and kafkaConsumer.*"
            )
    given = {"kafka.isolation.level": "read_committed", **options, "kafka.bootstrap.servers": bootstrap_servers}
    if isinstance(topics, re.Pattern):
        return {**given, "subscribePattern": topics.pattern}
    return {**given, "subscribe": topics if isinstance(topics, str) else ",".join(topics)}


def _layout(file_size: int, compression: str) -> Layout:
    if isinstance(file_size, bool) or not isinstance(file_size, int) or file_size < 1:
        raise ConfigError(f"file_size: {file_size!r} is not accepted; expected a number of bytes of at least 1")
    if compression not in COMPRESSIONS:
        raise ConfigError(f"compression: {compression!r} is not accepted; expected one of {', '.join(COMPRESSIONS)}")
    return Layout(file_size, compression)


def _schema(options: ReadOptions, mapping: RowMapping | None) -> pa.Schema:
    """The columns of the files: a mapping tells its own by what it makes of no rows."""
    columns = pa.schema([(name, TYPES[name]) for name in columns_with(headers=options.include_headers)])
    nothing = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in columns], schema=columns)
    schema = columns if mapping is None else mapped(mapping, nothing).schema
    if not len(schema):
        raise ConfigError("the mapping gives no columns")
    for field in schema:
        if any(map(pa.types.is_null, _leaves(field.type))):
            raise ConfigError(
                f"the mapping gives a column {field.name} of the type {field.type} when there are no rows: its type has"
                " to be the same always, so give it to the array, as in pa.array(found, pa.string())"
            )
    return schema


def _check_for_spark(schema: pa.Schema) -> None:
    """What is loaded is to be read by Spark, too."""
    names = [name.lower() for name in schema.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"the mapping gives two columns {', '.join(twice)}, which Spark does not tell apart")
    for field in schema:
        if not all(map(_is_readable, _leaves(field.type))):
            raise ConfigError(
                f"the mapping gives a column {field.name} of the type {field.type}, which Spark does not read from"
                " Parquet files: cast it, such as times to pa.timestamp('us') and unsigned numbers to pa.int64()"
            )


def _is_readable(kind: pa.DataType) -> bool:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        from_arrow_type(kind)
    except PySparkException:
        return False
    is_too_fine = pa.types.is_timestamp(kind) and kind.unit == "ns"
    return not (is_too_fine or pa.types.is_time(kind) or pa.types.is_decimal256(kind))


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    """What a type is made of in the end."""
    if not kind.num_fields:
        yield kind
    for number in range(kind.num_fields):
        yield from _leaves(kind.field(number).type)
