"""Streams that Spark runs: the rows that came out are counted, never those that went in.

Where a test stops a query, it starts one on the same checkpoint, as after a crash.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.topics import Rec, Topics
from tests.support.waiting import wait_until

Start = Callable[..., StreamingQuery]
LIMIT = 150


class Out:
    """Rows of a query by batch; `fail` is called with each batch's number before it is taken."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}
        self.fail: Callable[[int], None] = lambda _: None

    def __call__(self, frame: DataFrame, number: int) -> None:
        rows = sorted(row.value.decode() for row in frame.select("value").collect())
        self.fail(number)
        assert self.batches.setdefault(number, rows) == rows, "a batch that is repeated has to be the same"

    @property
    def rows(self) -> list[str]:
        return sorted(row for rows in self.batches.values() for row in rows)


@pytest.fixture
def out() -> Out:
    return Out()


@pytest.fixture
def load(spark: SparkSession, topics: Topics) -> Callable[..., DataFrame]:
    def load(source: str = "pylogbroker", **options: Any) -> DataFrame:
        reader = spark.readStream.format(source).option("kafka.bootstrap.servers", topics.bootstrap)
        return reader.options(**options).load()

    return load


@pytest.fixture
def start(out: Out, tmp_path: Path) -> Iterator[Start]:
    """Starts a query, always on the same checkpoint, into `out`."""
    made: list[StreamingQuery] = []

    def start(frame: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(out).option("checkpointLocation", str(tmp_path / "checkpoint"))
        made.append((writer.trigger(**trigger) if trigger else writer).start())
        return made[-1]

    yield start
    for each in made:
        each.stop()


def values(name: str, count: int, partition: int = 0) -> list[Rec]:
    return [Rec(f"{name}{number}".encode(), partition=partition) for number in range(count)]


def names(*given: tuple[str, int]) -> list[str]:
    return sorted(f"{name}{number}" for name, count in given for number in range(count))


def until(query: StreamingQuery, done: Callable[[], object]) -> None:
    def is_done() -> object:
        if (error := query.exception()) is not None:
            raise error
        return done()

    wait_until(is_done, LIMIT)


def with_rows(query: StreamingQuery) -> list[Any]:
    """Return the progress of the query's batches that were not empty."""
    return [each for each in query.recentProgress if each["numInputRows"]]


def offset_of(reported: Any, name: str) -> dict[str, dict[str, int]]:
    offset = reported["sources"][0][name]
    found: dict[str, dict[str, int]] = json.loads(offset) if isinstance(offset, str) else offset
    return found


def reject(number: int) -> None:
    raise RuntimeError(f"batch {number} is not taken")


def test_a_query_that_fails_goes_on_where_it_was(topics: Topics, load: Any, start: Start, out: Out) -> None:
    topic = topics.make(2)
    topics.fill(topic, [*values("a", 4), *values("b", 2, 1)])
    frame = load(subscribe=topic, startingOffsets="earliest")
    out.fail = reject
    with pytest.raises(StreamingQueryException, match="batch 0 is not taken"):
        start(frame).awaitTermination(LIMIT)
    topics.fill(topic, values("c", 3, 1))
    out.fail = lambda _: None
    query = start(frame)
    until(query, lambda: len(out.rows) == 9)
    assert out.batches[0] == names(("a", 4), ("b", 2))  # as it was before, and what came then is apart
    topics.widen(topic, 3)
    topics.fill(topic, values("d", 2, 2))
    until(query, lambda: len(out.rows) == 11)
    query.stop()
    topics.fill(topic, values("e", 1))
    start(frame, availableNow=True).awaitTermination(LIMIT)
    assert out.rows == names(("a", 4), ("b", 2), ("c", 3), ("d", 2), ("e", 1))


def test_available_now_as_spark_itself_does_it(topics: Topics, load: Any, spark: SparkSession, tmp_path: Path) -> None:
    topic = topics.make(3)
    topics.fill(topic, [*values("a", 40), *values("b", 20, 1), *values("c", 1, 2)])
    found = {}
    for source in ("pylogbroker", "kafka"):
        batches = Out()
        frame = load(source, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
        writer = frame.writeStream.foreachBatch(batches).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / source)).start()
        assert query.awaitTermination(LIMIT)
        ends = [offset_of(each, "endOffset")[topic] for each in with_rows(query)]
        found[source] = (batches.batches, ends)
    assert found["pylogbroker"] == found["kafka"]
    assert len(found["kafka"][0]) == 3


@pytest.mark.one_broker
def test_a_query_of_sparks_own_source_goes_on_with_ours_and_back(
    topics: Topics, load: Any, start: Start, out: Out
) -> None:
    topic = topics.make(2)
    topics.fill(topic, [*values("a", 3), *values("b", 2, 1)])
    assert start(load("kafka", subscribe=topic, startingOffsets="earliest"), availableNow=True).awaitTermination(LIMIT)
    topics.fill(topic, [*values("c", 3), *values("d", 2, 1)])
    assert start(load(subscribe=topic, startingOffsets="earliest"), availableNow=True).awaitTermination(LIMIT)
    topics.fill(topic, values("e", 4))
    assert start(load("kafka", subscribe=topic, startingOffsets="earliest"), availableNow=True).awaitTermination(LIMIT)
    assert out.rows == names(("a", 3), ("b", 2), ("c", 3), ("d", 2), ("e", 4))


@pytest.mark.one_broker
def test_streams_joined_in_one_query(topics: Topics, load: Any, start: Start, out: Out, spark: SparkSession) -> None:
    one, other = topics.make(), topics.make()
    topics.fill(one, [Rec(b"x%d" % number, b"k%d" % number) for number in range(4)])
    left = load(subscribe=one, startingOffsets="earliest").selectExpr("key", "value AS left")
    right = load(subscribe=other, startingOffsets="earliest").selectExpr("key", "value AS right")
    query = start(left.join(right, "key").selectExpr("concat(left, right) AS value"))
    topics.fill(other, [Rec(b"y%d" % number, b"k%d" % number) for number in (1, 3, 9)])
    until(query, lambda: len(out.rows) == 2)
    assert out.rows == ["x1y1", "x3y3"]


@pytest.mark.one_broker
def test_lost_data_ends_a_query(topics: Topics, load: Any, start: Start) -> None:
    topic = topics.make()
    topics.fill(topic, values("a", 9))
    frame = load(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 2}}))
    topics.trim(topic, 0, 5)
    with pytest.raises(StreamingQueryException, match="some data may have been lost"):
        start(frame, availableNow=True).awaitTermination(LIMIT)


@pytest.mark.one_broker
def test_a_running_stream_reports_its_lag(topics: Topics, load: Any, start: Start, out: Out) -> None:
    topic = topics.make()
    query = start(load(subscribe=topic, maxOffsetsPerTrigger=3))
    until(query, lambda: query.lastProgress)
    topics.fill(topic, values("a", 9), linger_ms=60_000)  # in one batch: the query waits for the first record
    until(query, lambda: len(out.rows) == 9)
    until(query, lambda: len(with_rows(query)) == 3)
    lags = [
        offset_of(each, "latestOffset")[topic]["0"] - offset_of(each, "endOffset")[topic]["0"]
        for each in with_rows(query)
    ]
    assert lags == [6, 3, 0]
    begun = time.monotonic()
    query.stop()
    assert time.monotonic() - begun < 60
