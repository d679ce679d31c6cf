"""Streams whose topics and partitions come and go, or are not what they were."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.client.errors import NoBrokers
from pylogbroker.errors import ConfigError
from pylogbroker.spark.reading import micro_batches
from pylogbroker.spark.reading.bounds import partitions_for
from pylogbroker.spark.reading.losses import DataLost
from pylogbroker.wire import NO_ID
from tests.spark.stream_driver import QUICK, DrivenStream, names, values
from tests.spark.topics import Topics
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

Stream = Callable[..., DrivenStream]


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics are asked for each time."""
    monkeypatch.setattr(micro_batches, "_REFRESH_SECONDS", 0)


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
def test_topics_that_come_when_there_were_none(topics: Topics, stream: Stream) -> None:
    """They are new, and begin at their first record, wherever the query was to begin."""
    topic = topics.fresh_name()
    query = stream(subscribePattern=f"^{topic}$", failOnDataLoss=False)
    assert (query.step(), query.step(), query.positions) == (True, False, {})
    topics.fill(topics.make(name=topic), values("a", 2))
    query.restart()
    assert query.next() == names("a", 2)
    topics.delete(topic)
    wait_until(lambda: query.step() and not query.positions)
    topics.make_again(topic)
    topics.fill(topic, values("b", 3))
    found: list[str] = []
    wait_until(lambda: found.extend(query.next()) or found)
    assert found == names("b", 3)


def test_a_topic_that_a_broker_does_not_know_for_a_moment(
    topics: Topics, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.make()
    topics.fill(topic, values("a", 2))
    unknown = 0

    def there(*given: Any) -> Any:
        nonlocal unknown
        unknown -= 1
        return [] if unknown >= 0 else partitions_for(*given)

    monkeypatch.setattr(micro_batches, "partitions_for", there)
    monkeypatch.setattr(micro_batches, "_REFRESH_SECONDS", 0)
    query = stream(subscribe=topic, startingOffsets="earliest")
    unknown = 2
    assert query.next() == names("a", 2)
    topics.fill(topic, values("b", 3))
    unknown = 2
    assert query.next() == names("b", 3)
    query = stream(subscribe=topic, startingOffsets="earliest")
    unknown = 2
    query.reader.prepareForTriggerAvailableNow()
    assert query.next() == [*names("a", 2), *names("b", 3)]


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
        wait_until(strict.step)
    wait_until(lambda: lenient.step() and topic not in lenient.offset)
    topics.fill(other, values("a", 2))
    assert lenient.next() == names("a", 2)


def test_a_topic_that_is_deleted_between_two_looks(topics: Topics, stream: Stream) -> None:
    topic, other = topics.make(), topics.make()
    query = stream(subscribe=f"{topic},{other}", failOnDataLoss=False)
    query.step()
    topics.delete(topic)
    topics.fill(other, values("a", 2))
    found: list[str] = []
    wait_until(lambda: found.extend(query.next()) or topic not in query.offset)
    assert [*found, *query.next()] == names("a", 2)


@pytest.mark.usefixtures("looking")
@pytest.mark.parametrize("longer", [False, True])
def test_a_topic_that_is_recreated(longer: bool, topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    topics.fill(topic, values("old", 4))
    strict, lenient = stream(subscribe=topic), stream(subscribe=topic, failOnDataLoss=False)
    strict.step(), lenient.step()
    topics.remake(topic)
    topics.fill(topic, values("new", 6 if longer else 1))
    with pytest.raises(DataLost, match=f"{topic}/0 was read up to 4"):
        wait_until(strict.step)
    found: list[str] = []
    wait_until(lambda: found.extend(lenient.next()) or found)
    assert found == names("new", 6 if longer else 1)
    topics.fill(topic, values("more", 7))
    assert lenient.next() == names("more", 7)


def test_a_topic_that_is_recreated_between_two_looks(
    topics: Topics, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_batches, "_REFRESH_SECONDS", float("inf"))
    topic = topics.make()
    topics.fill(topic, values("old", 4))
    query = stream(subscribe=topic, failOnDataLoss=False, **{"fetchOffset.numRetries": 1})
    query.step()
    topics.remake(topic)
    topics.fill(topic, values("new", 1))
    found: list[str] = []
    wait_until(lambda: found.extend(query.next()) or found)
    assert found == names("new", 1)


@pytest.mark.parametrize("longer", [False, True])
def test_a_topic_that_is_recreated_between_two_runs(longer: bool, topics: Topics, stream: Stream) -> None:
    """The new one is as long as what was read, or longer."""
    topic = topics.make()
    topics.fill(topic, values("old", 4))
    given = {"subscribe": topic, "startingOffsets": "earliest"}
    strict, lenient = stream(**given), stream(**given, failOnDataLoss=False)
    assert (strict.next(), lenient.next()) == (names("old", 4), names("old", 4))
    before = topics.id(topic)
    topics.remake(topic)
    topics.fill(topic, values("new", 6 if longer else 4))
    ids = f"its id was {before}, and is now {topics.id(topic)}"
    why = f"{topic}/0 was read up to 4, but topic {topic} was deleted and created again: {ids}"
    strict.restart()
    with pytest.raises(DataLost, match=f"{why}.* set the option failOnDataLoss to false"):
        strict.step()
    strict.options["failOnDataLoss"] = "false"
    for query in (strict, lenient):
        query.restart()
        assert query.next() == names("new", 6 if longer else 4)
    topics.fill(topic, values("more", 2))
    lenient.restart()
    assert (lenient.next(), lenient.next()) == (names("more", 2), [])


def test_an_empty_topic_that_is_recreated_between_two_runs(topics: Topics, stream: Stream) -> None:
    """Its position is the same, but its id is written down at once."""
    topic = topics.make()
    query = stream(subscribe=topic, startingOffsets="earliest", failOnDataLoss=False)
    query.step()
    topics.remake(topic)
    query.restart()
    assert (query.step(), query.step()) == (True, False)
    assert f"/id/{topic}/{topics.id(topic)}" in query.offset


def test_a_batch_is_not_repeated_from_a_recreated_topic(topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    topics.fill(topic, values("old", 4))
    given = {"subscribe": topic, "startingOffsets": "earliest"}
    strict, lenient = stream(**given), stream(**given, failOnDataLoss=False)
    assert (strict.next(), lenient.next()) == (names("old", 4), names("old", 4))
    topics.remake(topic)
    topics.fill(topic, values("new", 6))
    strict.restart(), lenient.restart()
    with pytest.raises(DataLost, match=f"{topic}/0: topic {topic} was deleted and created again"):
        strict.rows()
    assert lenient.rows() == []
    assert lenient.next() == names("new", 6)


def test_a_checkpoint_without_ids_gets_them_at_once(topics: Topics, stream: Stream) -> None:
    """Earlier versions write such ones, and Spark's own source."""
    topic = topics.make()
    topics.fill(topic, values("old", 4))
    query = stream(subscribe=topic)
    query.offset = {topic: {"0": 4}}
    assert (query.step(), query.rows(), query.step()) == (True, [], False)
    assert query.offset == {topic: {"0": 4}, f"/id/{topic}/{topics.id(topic)}": {}}
    topics.remake(topic)
    topics.fill(topic, values("new", 6))
    query.restart()
    with pytest.raises(DataLost, match=f"{topic} was deleted and created again"):
        query.step()


def test_a_checkpoint_with_a_damaged_id(stream: Stream) -> None:
    query = stream(subscribe="t")
    query.offset = {"t": {"0": 4}, "/id/t/4c0b": {}}
    with pytest.raises(ConfigError, match="the checkpoint has an invalid topic id, '/id/t/4c0b': remove this member"):
        query.step()


def test_brokers_without_topic_ids(topics: Topics, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that was written down stays, for the time when they have ids again."""
    topic = topics.make()
    topics.fill(topic, values("a", 2))
    given = {"subscribe": topic, "startingOffsets": "earliest"}
    with_id, without = stream(**given), stream(**given)
    with_id.step()
    monkeypatch.setattr(BlockingCluster, "topic_id", lambda *_: NO_ID)
    assert (without.next(), without.next()) == (names("a", 2), [])
    assert without.offset == {topic: {"0": 2}, "/start": {topic: {"0": 0}}}
    topics.fill(topic, values("b", 3))
    with_id.restart()
    assert (with_id.next(), without.next()) == (names("b", 3), names("b", 3))
    assert without.offset == {topic: {"0": 5}}
    assert with_id.offset == {topic: {"0": 5}, f"/id/{topic}/{topics.id(topic)}": {}}
    monkeypatch.undo()
    topics.remake(topic)
    topics.fill(topic, values("c", 9))
    with_id.restart()
    with pytest.raises(DataLost, match=f"{topic} was deleted and created again"):
        with_id.step()


def test_a_broker_that_knows_an_earlier_topic_for_a_moment(
    topics: Topics, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.make()
    topics.fill(topic, values("a", 2))
    query = stream(subscribe=topic, startingOffsets="earliest")
    query.step()
    topic_id, outdated = BlockingCluster.topic_id, 2

    def outdated_at_first(*given: Any) -> UUID:
        nonlocal outdated
        outdated -= 1
        return UUID(int=7) if outdated >= 0 else topic_id(*given)

    monkeypatch.setattr(BlockingCluster, "topic_id", outdated_at_first)
    topics.fill(topic, values("b", 3))
    query.restart()
    assert query.next() == names("b", 3)


@pytest.mark.usefixtures("looking")
def test_a_log_that_was_cut_off_is_written_down_at_once(topics: Topics, stream: Stream) -> None:
    """Else it would have grown again unseen, by the time that a restarted query looks."""
    topic = topics.make()
    topics.fill(topic, values("old", 4))
    query = stream(subscribe=topic, failOnDataLoss=False)
    query.step()
    topics.remake(topic)
    wait_until(query.step)
    wait_until(lambda: query.positions == {topic: {"0": 0}} or query.step())
    topics.fill(topic, values("new", 9))
    query.restart()
    assert query.next() == names("new", 9)


def test_a_log_that_has_lost_its_end(
    new_broker: Callable[..., Broker], fresh_name: Callable[[], str], against: str
) -> None:
    """The rest of a deleted topic is not read again."""
    if against:
        pytest.skip("how a broker mends its own files is its own affair")
    broker = new_broker()
    broker.start()
    with Topics(broker.bootstrap, fresh_name) as topics:
        topic = topics.make()
        topics.fill(topic, values("a", 4))
        given = {
            "kafka.bootstrap.servers": broker.bootstrap,
            **QUICK,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        strict, lenient = DrivenStream(given), DrivenStream({**given, "failOnDataLoss": "false"})
        [file] = broker.partition_dir(topic, 0).glob("*" + broker.segment_suffix)
        size = file.stat().st_size
        topics.fill(topic, values("lost", 3))
        strict.step(), lenient.step()
        broker.kill()
        os.truncate(file, size)
        broker.start()
        with pytest.raises(DataLost, match=f"{topic}/0 was read up to 7"):
            strict.step()
        assert lenient.next() == []
        assert lenient.positions == {topic: {"0": 4}}
        topics.fill(topic, values("b", 5))
        lenient.restart()
        assert lenient.next() == names("b", 5)


def test_a_start_behind_the_end(topics: Topics, stream: Stream) -> None:
    topic = topics.make()
    topics.fill(topic, values("a", 3))
    given = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 7}})}
    strict, lenient = stream(**given), stream(**given, failOnDataLoss=False)
    assert (strict.next(), lenient.next()) == ([], [])
    with pytest.raises(DataLost, match=f"{topic}/0 was read up to 7"):
        strict.step()
    assert lenient.next() == []
    topics.fill(topic, values("b", 2))
    assert lenient.next() == names("b", 2)


def test_a_checkpoint_that_does_not_say_where_to_begin(topics: Topics, stream: Stream) -> None:
    """Spark's own source keeps that somewhere else."""
    topic = topics.make()
    topics.fill(topic, values("a", 3))
    query = stream(subscribe=topic)
    with pytest.raises(ConfigError, match=f"does not say where {topic}/0 begins"):
        query.reader.partitions({}, {topic: {"0": 3}})
    assert len(query.reader.partitions({topic: {"0": 1}}, {topic: {"0": 3}})) == 1


def test_a_restarted_broker(new_broker: Callable[..., Broker], fresh_name: Callable[[], str]) -> None:
    broker = new_broker()
    broker.start()
    with Topics(broker.bootstrap, fresh_name) as topics:
        topic = topics.make()
        query = DrivenStream({"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic})
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
