"""The reader of streams, asked as Spark asks it, without Spark: where micro-batches end and what is in them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.spark.reading import micro_batches
from pylogbroker.spark.reading.bounds import NothingAsLate
from tests.spark.stream_driver import DrivenStream, names, values
from tests.spark.topics import Rec, Topics

Stream = Callable[..., DrivenStream]

# -- the beginning -------------------------------------------------------------------------------------------------


def test_the_first_batch_carries_its_start(topics: Topics, stream: Stream) -> None:
    topic = topics.make(2)
    topics.fill(topic, [*values("a", 3, 1)])
    query = stream(subscribe=topic, startingOffsets="earliest")
    assert [query.reader.initialOffset() for _ in range(3)] == [{}, {}, {}]
    assert query.next() == names("a", 3)
    topic_id = f"/id/{topic}/{topics.id(topic)}"
    assert query.offset == {topic: {"0": 0, "1": 3}, topic_id: {}, "/start": {topic: {"0": 0, "1": 0}}}
    topics.fill(topic, values("b", 2))
    query.restart()  # and the first batch is run again, as if it had failed
    assert query.rows() == names("a", 3)
    assert query.next() == names("b", 2)
    assert query.offset == {topic: {"0": 2, "1": 3}, topic_id: {}}


def test_from_the_end_the_first_batch_is_empty_but_there(topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    topics.fill(topic, values("old", 3))
    query = stream(subscribe=topic)
    assert query.step()
    assert query.rows() == []
    topics.fill(topic, values("new", 2))
    query.restart()
    assert query.next() == names("new", 2)


@pytest.mark.parametrize("limits", [{}, {"maxOffsetsPerTrigger": 2}])
def test_streams_start_at_offsets_and_times(limits: dict[str, int], topics: Topics, stream: Stream) -> None:
    topic = topics.make(2, retention_ms="-1")
    topics.fill(topic, [Rec(b"x%d" % n, partition=n % 2, timestamp=1_000_000 + n) for n in range(8)])
    by_offset = stream(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 2, "1": -1}}), **limits)
    assert by_offset.all() == ["x4", "x6"]
    by_time = stream(subscribe=topic, startingTimestamp=1_000_005, **limits)
    assert sorted(by_time.all()) == ["x5", "x6", "x7"]
    with pytest.raises(NothingAsLate, match="no record with a timestamp of 1000007 or later"):
        stream(subscribe=topic, startingTimestamp=1_000_007).step()
    latest = {"startingOffsetsByTimestampStrategy": "latest", **limits}
    assert stream(subscribe=topic, startingTimestamp=1_000_007, **latest).all() == ["x7"]


def test_topics_that_are_not_there(topics: Topics, stream: Stream) -> None:
    topic = topics.make(2)
    with pytest.raises(KafkaError, match="no such topic or partition: nowhere-at-all"):
        stream(subscribe=f"{topic},nowhere-at-all").step()
    with pytest.raises(KafkaError, match=f"no such topic or partition: {topic}/5"):
        stream(assign=json.dumps({topic: [0, 5]})).step()
    with pytest.raises(ConfigError, match=f"{topic}/1 is not given"):
        stream(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 0}})).step()
    pattern = stream(subscribePattern=f"^{topic}-later$", startingOffsets="earliest")
    assert (pattern.next(), pattern.next()) == ([], [])
    topics.fill(topics.make(name=f"{topic}-later"), values("v", 2))
    pattern.restart()
    assert pattern.next() == names("v", 2)


# -- how far -------------------------------------------------------------------------------------------------------


def test_batches_are_limited(topics: Topics, stream: Stream) -> None:
    topic = topics.make(3)
    topics.fill(topic, [*values("a", 20), *values("b", 10, 1), *values("c", 1, 2)])
    query = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10, minPartitions=4)
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(10)
    query.step()
    assert query.positions == {topic: {"0": 6, "1": 3, "2": 1}}
    assert len(query.reader.partitions({}, query.offset)) == 4
    assert query.reader.reportLatestOffset() == {topic: {"0": 20, "1": 10, "2": 1}}
    assert sorted([*query.rows(), *query.all()]) == sorted([*names("a", 20), *names("b", 10), *names("c", 1)])


def test_trigger_once_ignores_limits(topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    topics.fill(topic, values("a", 9))
    query = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2, minOffsetsPerTrigger=2)
    assert query.reader.latestOffset({}, ReadAllAvailable())[topic] == {"0": 9}


class Clock:
    """Replacement of the module `time`."""

    def __init__(self) -> None:
        self.now = 5000.0
        self.sleep = time.sleep

    def monotonic(self) -> float:
        return self.now


def test_batches_below_the_minimum_wait(topics: Topics, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(micro_batches, "time", clock)
    topic = topics.make()
    topics.fill(topic, values("a", 1))
    query = stream(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=5, maxTriggerDelay="40s")
    assert query.reader.getDefaultReadLimit() == ReadMinRows(5)
    assert query.next() == names("a", 1)  # the first batch waits for nothing
    topics.fill(topic, values("b", 4))
    clock.now += 39
    assert not query.step()
    clock.now += 1
    assert query.next() == names("b", 4)
    clock.now += 39
    topics.fill(topic, values("c", 4))
    assert not query.step()  # the delay is counted from the batch before
    topics.fill(topic, values("d", 1))
    assert query.next() == [*names("c", 4), *names("d", 1)]
    topics.fill(topic, values("e", 1))
    query.restart()
    assert query.next() == names("e", 1)  # nor does the first one after a start


def test_an_idle_stream_waits_at_the_leader(topics: Topics, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = topics.make(2)
    query = stream(subscribe=topic, startingOffsets="earliest")
    query.step()
    asked: list[object] = []
    offsets = BlockingCluster.offsets
    monkeypatch.setattr(BlockingCluster, "offsets", lambda *given: asked.append(given) or offsets(*given))
    begun = time.monotonic()
    assert not query.step()
    assert time.monotonic() - begun >= 0.15
    assert len(asked) == 1
    monkeypatch.setattr(micro_batches, "_WAIT", 300)
    timer = threading.Timer(0.3, topics.fill, (topic, values("a", 1, 1)))
    timer.start()
    assert query.next() == ["a0"]
    assert time.monotonic() - begun < 100
    timer.join()


def test_available_now(topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    topics.fill(topic, values("a", 5))
    query = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2, minOffsetsPerTrigger=2)
    query.reader.prepareForTriggerAvailableNow()
    topics.fill(topic, values("b", 3))
    topics.widen(topic, 2)
    assert query.all() == names("a", 5)
    topics.fill(topic, values("c", 2, 1))
    query.restart()
    query.reader.prepareForTriggerAvailableNow()
    assert query.all() == ["b0", "c0", "b1", "c1", "b2"]  # of the new partition, too
    assert query.positions == {topic: {"0": 8, "1": 2}}


def test_only_committed_records_are_read(topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    topics.transaction(topic, values("bad", 3), commit=False)
    topics.transaction(topic, values("good", 3), commit=True)
    query = stream(subscribe=topic, startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"})
    assert query.all() == names("good", 3)
    assert query.positions == {topic: {"0": 8}}
