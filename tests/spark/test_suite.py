"""One suite of queries, run unchanged with Spark's own source and with ours: the same rows, the same columns.

Only the word that is given to `format` differs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr, window
from pyspark.sql.readwriter import DataFrameReader

from tests.spark.topics import Rec, Topics

T0 = 1_700_000_000_000
Load = Callable[..., DataFrame]
Query = Callable[[Load, "Filled"], DataFrame]


class Filled:
    """Two topics: `main` of three partitions with whatever records can have, `other` of one, with transactions."""

    def __init__(self, topics: Topics) -> None:
        self.bootstrap = topics.bootstrap
        self.main = topics.make(3, retention_ms="-1")  # the records' times are of long ago
        self.other = topics.make(1, retention_ms="-1")
        for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            topics.fill(self.main, _records(number), compression_type=codec)
        topics.fill(self.other, [Rec(b"plain", b"k1", timestamp=T0)])
        topics.transaction(self.other, [Rec(b"committed", b"k2") for _ in range(3)], commit=True)
        topics.transaction(self.other, [Rec(b"aborted", b"k3") for _ in range(4)], commit=False)
        topics.fill(self.other, [Rec(b"last", b"k1", timestamp=T0 + 5)])

    def json(self, *values: int | list[int]) -> str:
        """One for each partition of `main`."""
        return json.dumps({self.main: {str(number): value for number, value in enumerate(values)}})


def _records(number: int) -> Iterator[Rec]:
    for index in range(60):
        yield Rec(
            None if index % 7 == 0 else b"v%d-%d" % (number, index) * (index % 5),
            None if index % 3 == 0 else b"k%d" % (index % 4),
            partition=index % 2 if index % 10 else 2,
            timestamp=T0 + number * 1000 + index,
            headers=[("h", b"%d" % index), ("h", None), ("", b"")][: index % 4],
        )


def _loaded(load: Load, filled: Filled, **options: Any) -> DataFrame:
    return load(subscribe=filled.main, includeHeaders=True, **options)


QUERIES: dict[str, Query] = {
    "everything": lambda load, of: _loaded(load, of),
    "two topics": lambda load, of: load(subscribe=f" {of.main} , {of.other} "),
    "a pattern anywhere in the name": lambda load, of: load(subscribePattern=of.main[3:]),
    "assigned": lambda load, of: load(assign=json.dumps({of.main: [2, 0], of.other: [0]})),
    "committed": lambda load, of: load(subscribe=of.other, **{"kafka.isolation.level": "read_committed"}),
    "uncommitted": lambda load, of: load(subscribe=of.other),
    "offsets": lambda load, of: _loaded(load, of, startingOffsets=of.json(5, -2, 1), endingOffsets=of.json(17, -1, 1)),
    "offsets with transactions": lambda load, of: load(
        subscribe=of.other,
        startingOffsets=json.dumps({of.other: {"0": 2}}),
        endingOffsets=json.dumps({of.other: {"0": 6}}),
        **{"kafka.isolation.level": "read_committed"},
    ),
    "from a time": lambda load, of: _loaded(load, of, startingTimestamp=T0 + 2030, endingTimestamp=T0 + 4011),
    "times": lambda load, of: _loaded(
        load,
        of,
        startingOffsetsByTimestamp=of.json(T0 + 1000, T0 + 3000, T0 + 2030),
        endingOffsetsByTimestamp=of.json(T0 + 3001, T0 + 9_000_000, T0 + 2040),
    ),
    "a time that is too late": lambda load, of: _loaded(
        load, of, startingTimestamp=T0 + 9_000_000, startingOffsetsByTimestampStrategy="latest"
    ),
}
#: The same for all brokers.
SPARKS: dict[str, Query] = {
    "without headers": lambda load, of: load(subscribe=of.main),
    "min partitions": lambda load, of: _loaded(load, of, minPartitions=7),
    "max records": lambda load, of: _loaded(load, of, maxRecordsPerPartition=40, minPartitions=2),
    "clients' settings": lambda load, of: _loaded(
        load,
        of,
        groupIdPrefix="mine",
        failOnDataLoss=False,
        **{"kafka.max.poll.records": 7, "kafka.fetch.min.bytes": 1, "kafka.group.id": of.main},
    ),
    "filters": lambda load, of: _loaded(load, of).where(
        f"partition < 2 AND offset > 20 AND timestamp >= timestamp_millis({T0 + 1000})"
    ),
    "an aggregate": lambda load, of: (
        load(subscribe=of.main)
        .groupBy("key", window("timestamp", "1 second"))
        .agg(*map(expr, ("count(*) AS n", "max(offset) AS last", "sum(length(value)) AS bytes")))
    ),
    "a join": lambda load, of: (
        load(subscribe=of.main)
        .selectExpr("key", "offset AS first")
        .join(load(subscribe=of.other).selectExpr("key", "value"), "key")
    ),
    "headers exploded": lambda load, of: _loaded(load, of).selectExpr(
        "partition", "offset", "explode_outer(headers) AS header"
    ),
}


@pytest.fixture
def filled(topics: Topics, broker_name: str, made: dict[str, Filled]) -> Filled:
    """Return the topics for all queries on one broker, filled once."""
    if broker_name not in made:
        made[broker_name] = Filled(topics)
    return made[broker_name]


@pytest.fixture(scope="module")
def made() -> dict[str, Filled]:
    return {}


@pytest.mark.parametrize("name", QUERIES)
def test_the_rows_are_the_same(name: str, spark: SparkSession, filled: Filled) -> None:
    rows = _compared(spark, filled, QUERIES[name])
    assert bool(rows) == (name != "a time that is too late")


@pytest.mark.one_broker
@pytest.mark.parametrize("name", SPARKS)
def test_rows_and_schema_match_sparks_source(name: str, spark: SparkSession, filled: Filled) -> None:
    assert _compared(spark, filled, SPARKS[name])


@pytest.mark.one_broker
def test_records_that_go_between_planning_and_reading(spark: SparkSession, topics: Topics) -> None:
    found = []
    for source in ("pylogbroker", "kafka"):
        topic = topics.make()
        topics.fill(topic, [Rec(b"%d" % number) for number in range(8)])
        reader = spark.read.format(source).option("kafka.bootstrap.servers", topics.bootstrap)
        rows = reader.option("subscribe", topic).load().select("value").rdd
        assert rows.getNumPartitions() == 1
        topics.trim(topic, 0, 5)
        found.append([row.value for row in rows.collect()])
    assert found == [[b"5", b"6", b"7"]] * 2


def _compared(spark: SparkSession, filled: Filled, query: Query) -> list[str]:
    ours, theirs = (_answer(spark, source, filled, query) for source in ("pylogbroker", "kafka"))
    assert ours.schema == theirs.schema
    rows = _rows(ours)
    assert rows == _rows(theirs)
    return rows


def _answer(spark: SparkSession, source: str, filled: Filled, query: Query) -> DataFrame:
    def load(**options: Any) -> DataFrame:
        reader: DataFrameReader = spark.read.format(source)
        return reader.option("kafka.bootstrap.servers", filled.bootstrap).options(**options).load()

    return query(load, filled)


def _rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))
