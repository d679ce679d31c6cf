"""The sink as Spark calls it: columns and options, batches, streams, and what is left of those that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from pylogbroker.errors import ConfigError
from pylogbroker.spark.source import PylogbrokerSource
from pylogbroker.spark.writing.columns import Fields, fields_of
from pylogbroker.spark.writing.sink import BatchWriter, StreamWriter
from tests.spark.rows import read, values
from tests.spark.topics import Rec, Topics

GIVEN = {"kafka.bootstrap.servers": "nowhere:1", "topic": "t"}
TEXT, BYTES, INT = StringType(), BinaryType(), IntegerType()


def _headers(value: DataType) -> DataType:
    return ArrayType(StructType([StructField("key", TEXT), StructField("value", value)]))


def _schema(columns: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    "columns",
    [
        {"value": TEXT},
        {"value": BYTES, "key": TEXT},
        {"key": BYTES, "value": TEXT, "topic": TEXT, "partition": INT, "headers": _headers(BYTES)},
        {"value": TEXT, "VALUE": INT, "Key": DoubleType(), "offset": TEXT},
    ],
)
def test_columns_that_are_accepted(columns: dict[str, DataType]) -> None:
    BatchWriter.of(GIVEN, _schema(columns), overwrite=False)
    StreamWriter.of(GIVEN, _schema(columns), overwrite=True)


def test_a_column_topic_is_not_looked_at_where_the_option_counts() -> None:
    columns = _schema({"topic": INT, "value": TEXT})
    assert fields_of([(field.name, field.dataType.simpleString()) for field in columns], "t") == Fields(value=1)


def test_the_first_of_two_columns_with_one_name_counts() -> None:
    """The errors are those of Spark's own sink."""
    assert fields_of([("value", "string"), ("value", "int")], "t") == Fields(value=0)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"key": TEXT, "VALUE": TEXT}, "the column value is missing"),
        ({"value": INT}, "column value is int: it must be string or binary"),
        ({"value": TEXT, "key": DoubleType()}, "column key is double"),
        ({"value": TEXT, "partition": LongType()}, "column partition is bigint: it must be int"),
        ({"value": TEXT, "headers": TEXT}, "column headers is string"),
        ({"value": TEXT, "headers": _headers(TEXT)}, "column headers is array"),
    ],
)
def test_columns_that_are_rejected(columns: dict[str, DataType], why: str) -> None:
    for kind in (BatchWriter, StreamWriter):
        with pytest.raises(ConfigError, match=why):
            kind.of(GIVEN, _schema(columns), overwrite=False)


def test_a_column_topic_has_to_be_text() -> None:
    with pytest.raises(ConfigError, match="column topic is int: it must be string"):
        fields_of([("value", "string"), ("topic", "int")], None)


@pytest.mark.parametrize(
    ("kind", "given", "overwrite", "why"),
    [
        (BatchWriter, GIVEN, True, "a topic cannot be overwritten"),
        (BatchWriter, {"kafka.bootstrap.servers": "nowhere:1"}, False, "no topic is given"),
        (
            BatchWriter,
            {**GIVEN, "kafka.compression.gzip.level": "12", "kafka.compression.type": "gzip"},
            False,
            "-1 to 9",
        ),
        (BatchWriter, {"topic": "t"}, False, r"kafka\.bootstrap\.servers is missing"),
        (StreamWriter, {**GIVEN, "kafka.acks": "1"}, False, "exactlyOnce to false"),
        (StreamWriter, {**GIVEN, "kafka.enable.idempotence": "false"}, False, "exactlyOnce to false"),
    ],
)
def test_unsupported_columns_and_modes_are_rejected(
    kind: type[BatchWriter], given: dict[str, str], overwrite: bool, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        kind.of(given, _schema({"value": TEXT}), overwrite)


def test_the_drivers_part_is_light() -> None:
    """Spark begins a process for each micro-batch, to end transactions."""
    heavy = "{'numpy', 'pyarrow', 'twisted'}"
    program = f"import sys, pylogbroker.spark.writing.sink; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_rows_are_written_as_by_sparks_own_sink(spark: SparkSession, topics: Topics) -> None:
    """And to the same partitions, since keys are hashed as Java's producer does it."""
    rows = spark.range(200).selectExpr(
        "if(id % 50 = 0, null, repeat(cast(id as string), cast(id % 7 as int))) key",
        "if(id % 9 = 0, null, cast(id as string)) value",
        "if(id % 50 = 0, 1, if(id % 11 = 0, 2, null)) partition",
        "if(id % 3 = 0, array(struct('h' key, cast('1' as binary) value),"
        " struct('n' key, cast(null as binary) value)), null) headers",
    )
    found = []
    for name in ("kafka", "pylogbroker"):
        topic = topics.make(4)
        _write(rows, name, topics.bootstrap, topic)
        found.append(
            {(m.partition(), m.key(), m.value(), str(m.headers())) for m in read(topics.bootstrap, topic, range(4))}
        )
    assert found[0] == found[1]
    assert len(found[0]) > 150


def test_rows_go_to_the_topics_that_they_name(spark: SparkSession, topics: Topics) -> None:
    one, two = topics.make(), topics.make()
    rows = spark.createDataFrame([(b"1", one), (b"2", two)], "value binary, topic string")
    rows.write.format("pylogbroker").option("kafka.bootstrap.servers", topics.bootstrap).mode("append").save()
    assert (values(topics.bootstrap, one), values(topics.bootstrap, two)) == ([b"1"], [b"2"])


# -- streams -----------------------------------------------------------------------------------------------------------


class Stream:
    """A query that copies a topic of two partitions into another one, in batches of four records."""

    def __init__(self, spark: SparkSession, topics: Topics, checkpoint: Path) -> None:
        self._spark = spark
        self._topics = topics
        self._checkpoint = checkpoint
        self._source, self._sink = topics.make(2), topics.make(3)
        self._expected: list[bytes] = []

    def fill(self, count: int) -> None:
        """More records in the source."""
        new = [b"%04d" % number for number in range(len(self._expected), len(self._expected) + count)]
        self._topics.fill(self._source, [Rec(value, partition=at % 2) for at, value in enumerate(new)])
        self._expected += new

    def run(
        self, name: str = "pylogbroker", change: Callable[[DataFrame], DataFrame] = lambda rows: rows, **options: Any
    ) -> None:
        """Until all is written that is there."""
        reader = self._spark.readStream.format("pylogbroker").option("kafka.bootstrap.servers", self._topics.bootstrap)
        reader = reader.option("subscribe", self._source).option("startingOffsets", "earliest")
        rows = change(reader.option("maxOffsetsPerTrigger", 4).load().select("value"))
        writer = rows.writeStream.format(name).option("kafka.bootstrap.servers", self._topics.bootstrap)
        writer = writer.option("topic", self._sink).option("checkpointLocation", str(self._checkpoint))
        for option, value in options.items():
            writer = writer.option(option, value)
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(180)
        finally:
            query.stop()

    def forget_last(self) -> None:
        """The driver was killed before it wrote down that a batch is committed."""
        numbers = [int(path.name) for path in (self._checkpoint / "commits").iterdir() if path.name.isdecimal()]
        for path in ("%d", ".%d.crc"):
            (self._checkpoint / "commits" / (path % max(numbers))).unlink()

    def check(self) -> None:
        """Everything is there once."""
        for partition in range(3):
            self._topics.wait_for_markers(self._sink, partition)
        assert sorted(self.written("read_committed")) == self._expected

    def written(self, isolation: str) -> list[bytes]:
        return values(self._topics.bootstrap, self._sink, range(3), isolation)


@pytest.fixture
def stream(spark: SparkSession, topics: Topics, tmp_path: Path) -> Stream:
    spark.dataSource.register(PylogbrokerSource)
    spark.dataSource.register(_killed_in_commit())
    return Stream(spark, topics, tmp_path / "checkpoint")


def test_a_stream_that_is_replayed_writes_each_row_once(stream: Stream) -> None:
    stream.fill(6)
    stream.run()
    stream.check()
    stream.forget_last()
    stream.fill(2)
    stream.run()
    stream.check()


def test_a_driver_that_is_killed_after_the_first_of_two_transactions(stream: Stream) -> None:
    stream.fill(4)
    with pytest.raises(StreamingQueryException):
        stream.run("killed-in-commit")
    assert len(stream.written("read_committed")) <= 2
    assert len(stream.written("read_uncommitted")) == 4
    stream.run()
    stream.check()


def test_a_task_that_is_killed_in_the_middle(stream: Stream, tmp_path: Path) -> None:
    stream.fill(4)
    mark = tmp_path / "killed"
    killing = _killing(mark, b"0003")
    with pytest.raises(StreamingQueryException):
        stream.run(change=killing)
    assert mark.exists()
    stream.run(change=killing)
    stream.check()


def test_at_least_once_is_an_option(stream: Stream) -> None:
    stream.fill(4)
    stream.run(exactlyOnce="false")
    stream.check()
    stream.forget_last()
    stream.run(exactlyOnce="false")
    assert sorted(stream.written("read_committed")) == sorted([b"%04d" % n for n in range(4)] * 2)


def _write(rows: DataFrame, name: str, bootstrap: str, topic: str) -> None:
    writer = rows.write.format(name).option("kafka.bootstrap.servers", bootstrap)
    writer.option("topic", topic).mode("append").save()


def _killing(mark: Path, value: bytes) -> Callable[[DataFrame], DataFrame]:
    """Kills the process that works on a row, the first time."""
    path = str(mark)

    def look(values: Sequence[bytes]) -> bytes:
        if bytes(values) == value and not os.path.exists(path):
            open(path, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return bytes(values)

    return lambda rows: rows.select(udf(look, "binary", useArrow=False)("value").alias("value"))


def _killed_in_commit() -> type[PylogbrokerSource]:
    """A sink whose driver ends one transaction, and then itself. It is here so that Spark gets it by value."""
    from pylogbroker.spark.writing import sink

    class Killed(sink.StreamWriter):
        def commit(self, messages: Any, batchId: int) -> None:
            from pylogbroker.spark.writing import transactions

            end = transactions._end

            def once(*arguments: Any, **named: Any) -> None:
                end(*arguments, **named)
                os.kill(os.getpid(), signal.SIGKILL)

            transactions._end = once
            super().commit(messages, batchId)

    class Source(PylogbrokerSource):
        @classmethod
        def name(cls) -> str:
            return "killed-in-commit"

        def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
            return Killed.of(self.options, schema, overwrite)

    return Source


def test_a_batch_that_no_broker_takes_fails_before_its_tasks(spark: SparkSession) -> None:
    """Spark makes the writer in a process of its own, so the time is set by the option here."""
    rows = spark.createDataFrame([("v",)], "value string").write.format("pylogbroker")
    rows = rows.options(**{**GIVEN, "kafka.bootstrap.servers": "127.0.0.1:1", "kafka.max.block.ms": "100"})
    with pytest.raises(Exception, match=r"no broker can be reached: cannot connect to 127\.0\.0\.1:1"):
        rows.mode("append").save()
