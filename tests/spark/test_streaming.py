"""The reader of streams, asked as Spark asks it, without Spark: where micro-batches end and what is in them."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from pylogbroker.client.errors import NoBrokers
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.spark.reading import progress
from pylogbroker.spark.reading.bounds import NothingAsLate
from pylogbroker.spark.reading.losses import DataLost
from pylogbroker.spark.reading.schema import schema_for
from pylogbroker.spark.reading.streaming import StreamReader
from tests.spark.topics import Rec, Topics
from tests.support.brokers import Broker

Stream = Callable[..., "Driven"]
QUICK = {"fetchOffset.retryIntervalMs": 20}


class Driven:
    """A query: asks for offsets, writes them down, reads what lies between, and starts again from what it wrote."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = {name: str(value) for name, value in options.items()}
        self.offset: dict[str, Any] = {}
        self.reader = self.restart()

    def restart(self) -> StreamReader:
        self.reader = StreamReader.of(self.options, schema_for(self.options))
        return self.reader

    def step(self) -> bool:
        """Ask for the next batch, as Spark does, with JSON in between; whether there is one."""
        limit = self.reader.getDefaultReadLimit()
        end = self.reader.latestOffset(json.loads(json.dumps(self.offset)), limit)
        self.before, changed = self.offset, json.dumps(end) != json.dumps(self.offset)
        self.offset = end
        return changed

    def rows(self) -> list[str]:
        """What is in the last batch, read as by tasks."""
        found = []
        for part in self.reader.partitions(self.before, self.offset):
            task = pickle.loads(pickle.dumps((self.reader, part)))
            for batch in task[0].read(task[1]):
                found += [value.decode() for value in batch.column("value").to_pylist()]
        return found

    def next(self) -> list[str]:
        return self.rows() if self.step() else []

    def all(self) -> list[str]:
        """Everything until there is nothing more."""
        found = []
        while self.step():
            found += self.rows()
        return found

    @property
    def positions(self) -> dict[str, dict[str, int]]:
        return {topic: numbers for topic, numbers in self.offset.items() if topic != "/start"}


@pytest.fixture
def stream(broker: Broker) -> Iterator[Stream]:
    made = []

    def make(**options: Any) -> Driven:
        made.append(Driven({"kafka.bootstrap.servers": broker.bootstrap, **QUICK, **options}))
        return made[-1]

    yield make
    for each in made:
        each.reader.stop()


def values(name: str, count: int, partition: int = 0) -> list[Rec]:
    return [Rec(f"{name}{number}".encode(), partition=partition) for number in range(count)]


def names(name: str, count: int) -> list[str]:
    return [f"{name}{number}" for number in range(count)]


# -- the beginning -------------------------------------------------------------------------------------------------


def test_the_first_batch_carries_its_start(topics: Topics, stream: Stream) -> None:
    topic = topics.make(2)
    topics.fill(topic, [*values("a", 3, 1)])
    query = stream(subscribe=topic, startingOffsets="earliest")
    assert [query.reader.initialOffset() for _ in range(3)] == [{}, {}, {}]
    assert query.next() == names("a", 3)
    assert query.offset == {topic: {"0": 0, "1": 3}, "/start": {topic: {"0": 0, "1": 0}}}
    topics.fill(topic, values("b", 2))
    query.restart()  # and the first batch is run again, as if it had failed
    assert query.rows() == names("a", 3)
    assert query.next() == names("b", 2)
    assert query.offset == {topic: {"0": 2, "1": 3}}


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
def test_from_offsets_and_times(limits: dict[str, int], topics: Topics, stream: Stream) -> None:
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


def test_once_means_everything(topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    topics.fill(topic, values("a", 9))
    query = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2, minOffsetsPerTrigger=2)
    assert query.reader.latestOffset({}, ReadAllAvailable())[topic] == {"0": 9}


class Clock:
    """In the place of the module `time`."""

    def __init__(self) -> None:
        self.now = 5000.0
        self.sleep = time.sleep

    def monotonic(self) -> float:
        return self.now


def test_too_little_waits(topics: Topics, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
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
    begun = time.monotonic()
    assert not query.step()
    assert time.monotonic() - begun >= 0.15
    monkeypatch.setattr(progress, "_WAIT", 20)
    timer = threading.Timer(0.3, topics.fill, (topic, values("a", 1, 1)))
    timer.start()
    assert query.next() == ["a0"]
    assert time.monotonic() - begun < 10
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


def test_committed_only(topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    topics.transaction(topic, values("bad", 3), commit=False)
    topics.transaction(topic, values("good", 3), commit=True)
    query = stream(subscribe=topic, startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"})
    assert query.all() == names("good", 3)
    assert query.positions == {topic: {"0": 8}}


# -- what comes and goes -------------------------------------------------------------------------------------------


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics are asked for each time."""
    monkeypatch.setattr(progress, "_LOOK_AGAIN", 0)


@pytest.mark.usefixtures("looking")
def test_new_partitions_begin_at_their_first_record(topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    topics.fill(topic, values("a", 2))
    query = stream(subscribePattern=topic)
    query.step()
    topics.widen(topic, 2)
    topics.fill(topic, values("b", 2, 1))
    other = topics.make(name=topic + "-other")
    topics.fill(other, values("c", 2))
    assert sorted(query.all()) == [*names("b", 2), *names("c", 2)]
    assert query.positions == {topic: {"0": 2, "1": 2}, other: {"0": 2}}


@pytest.mark.usefixtures("looking")
def test_a_new_partition_that_has_lost_records(topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    strict, lenient = stream(subscribe=topic), stream(subscribe=topic, failOnDataLoss=False)
    strict.step(), lenient.step()
    topics.widen(topic, 2)
    topics.fill(topic, values("a", 5, 1))
    topics.trim(topic, 1, 3)
    with pytest.raises(DataLost, match=f"{topic}/1 is new, but begins at 3"):
        strict.step()
    assert lenient.next() == ["a3", "a4"]


@pytest.mark.usefixtures("looking")
def test_a_topic_that_is_deleted(topics: Topics, stream: Stream) -> None:
    topic, other = topics.make(), topics.make()
    strict = stream(subscribe=f"{topic},{other}")
    lenient = stream(subscribe=f"{topic},{other}", failOnDataLoss=False)
    strict.step(), lenient.step()
    topics.delete(topic)
    with pytest.raises(DataLost, match=f"there is no {topic}/0 any more"):
        until(strict.step)
    until(lambda: lenient.step() and topic not in lenient.offset)
    topics.fill(other, values("a", 2))
    assert lenient.next() == names("a", 2)


def test_a_topic_that_is_deleted_between_two_looks(topics: Topics, stream: Stream) -> None:
    topic, other = topics.make(), topics.make()
    query = stream(subscribe=f"{topic},{other}", failOnDataLoss=False)
    query.step()
    topics.delete(topic)
    topics.fill(other, values("a", 2))
    found: list[str] = []
    until(lambda: found.extend(query.next()) or topic not in query.offset)
    assert [*found, *query.next()] == names("a", 2)


@pytest.mark.usefixtures("looking")
@pytest.mark.parametrize("longer", [False, True])
def test_a_topic_that_is_made_anew(longer: bool, topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    topics.fill(topic, values("old", 4))
    strict, lenient = stream(subscribe=topic), stream(subscribe=topic, failOnDataLoss=False)
    strict.step(), lenient.step()
    topics.delete(topic)
    until(lambda: made_anew(topics, topic))
    topics.fill(topic, values("new", 6 if longer else 1))
    with pytest.raises(DataLost, match=f"{topic}/0 was read up to 4"):
        until(strict.step)
    found: list[str] = []
    until(lambda: found.extend(lenient.next()) or found)
    assert found == names("new", 6 if longer else 1)
    topics.fill(topic, values("more", 7))
    assert lenient.next() == names("more", 7)


def made_anew(topics: Topics, topic: str) -> bool:
    try:
        topics.make(name=topic)
    except AssertionError:  # the old one is not quite gone
        return False
    return True


@pytest.mark.usefixtures("looking")
def test_a_log_that_was_cut_off_is_written_down_at_once(topics: Topics, stream: Stream) -> None:
    """Else it would have grown again unseen, by the time that a restarted query looks."""
    topic = topics.make()
    topics.fill(topic, values("old", 4))
    query = stream(subscribe=topic, failOnDataLoss=False)
    query.step()
    topics.delete(topic)
    until(lambda: made_anew(topics, topic))
    until(query.step)
    until(lambda: query.positions == {topic: {"0": 0}} or query.step())
    topics.fill(topic, values("new", 9))
    query.restart()
    assert query.next() == names("new", 9)


def until(done: Callable[[], object]) -> None:
    begun = time.monotonic()
    while not done():
        assert time.monotonic() - begun < 30
        time.sleep(0.02)


def test_a_restarted_broker(new_broker: Callable[..., Broker], fresh_name: Callable[[], str]) -> None:
    broker = new_broker()
    broker.start()
    with Topics(broker.bootstrap, fresh_name) as topics:
        topic = topics.make()
        query = Driven({"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic})
        query.step()
        broker.kill()
        timer = threading.Timer(0.5, broker.start)
        timer.start()
        query.step()
        timer.join()
        topics.fill(topic, values("b", 2))
        assert query.next() == names("b", 2)
        broker.kill()
        query.options["kafka.default.api.timeout.ms"] = "300"
        query.restart()
        with pytest.raises(NoBrokers, match="cannot connect"):
            query.step()
