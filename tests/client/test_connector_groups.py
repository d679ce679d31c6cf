"""Connectors that share a group, with each other and with other clients: nothing is lost, and nothing comes twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.threads import deferToThread

from pylogbroker.client import ConsumerConnector
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from tests.client.consumer_harness import Collector, Confluent, committed, connector, create, write
from tests.support.brokers import Broker
from tests.support.reactor_run import sleep, wait_for


def crash(consumer: ConsumerConnector) -> None:
    """The end of a member that says nothing to anybody: its connections and heartbeats are gone at once."""
    consumer._closed = True
    consumer._assigned.close()
    member = consumer.member
    assert member is not None
    member.abandon()
    ensureDeferred(consumer._cluster.close())


def shared(partitions: int, topic: str, *parts: frozenset[TopicPartition] | set[TopicPartition]) -> bool:
    """True if everybody has something, and together they have each partition once."""
    everything = [each for part in parts for each in part]
    return all(parts) and sorted(everything) == [(topic, number) for number in range(partitions)]


@pytest.fixture
def confluent() -> Iterator[Callable[..., Confluent]]:
    """Makes librdkafka's consumers, which are closed after the test."""
    made: list[Confluent] = []

    def make(*args: Any, **settings: Any) -> Confluent:
        made.append(Confluent(*args, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


async def _joined(consumer: ConsumerConnector, topic: str, streams: int = 1) -> Collector:
    return Collector(*(await consumer.create_message_streams({topic: streams}))[topic])


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_members_that_come_and_go(
    broker: Broker, topic: str, group: str, assignor: str, confluent: Callable[..., Confluent]
) -> None:
    create(broker.bootstrap, topic, 6)
    write(broker.bootstrap, topic, [f"a{number}" for number in range(600)], 6)
    settings = {"partition_assignment_strategy": assignor, "auto_commit_interval_ms": 100}
    one, two = connector(broker.bootstrap, group, **settings), connector(broker.bootstrap, group, **settings)
    first = await _joined(one, topic, 2)
    await wait_for(lambda: len(first.messages) == 600)
    second = await _joined(two, topic)
    await wait_for(lambda: shared(6, topic, one.assignment, two.assignment))
    third = confluent(broker.bootstrap, group, [topic], **{"partition.assignment.strategy": assignor})
    await wait_for(lambda: shared(6, topic, one.assignment, two.assignment, third.assignment))
    write(broker.bootstrap, topic, [f"b{number}" for number in range(600)], 6)
    await wait_for(lambda: len(first.values + second.values + third.values) == 1200)
    await deferToThread(third.close)
    await wait_for(lambda: shared(6, topic, one.assignment, two.assignment))
    write(broker.bootstrap, topic, [f"c{number}" for number in range(600)], 6)
    await wait_for(lambda: len(first.values + second.values + third.values) == 1800)
    await one.shutdown()
    await wait_for(lambda: len(two.assignment) == 6)
    write(broker.bootstrap, topic, [f"d{number}" for number in range(600)], 6)
    await wait_for(lambda: len(first.values + second.values + third.values) == 2400)
    await two.shutdown()
    every = Counter(first.values + second.values + third.values)
    assert every == Counter(f"{letter}{number}" for letter in "abcd" for number in range(600))
    assert committed(broker.bootstrap, group, topic, 6) == [400] * 6


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_a_member_that_dies_is_replaced(broker: Broker, topic: str, group: str, assignor: str) -> None:
    create(broker.bootstrap, topic, 4)
    write(broker.bootstrap, topic, [f"a{number}" for number in range(200)], 4)
    settings = {"partition_assignment_strategy": assignor, "session_timeout_ms": 1500, "auto_commit_interval_ms": 50}
    one, two = connector(broker.bootstrap, group, **settings), connector(broker.bootstrap, group, **settings)
    first, second = await _joined(one, topic), await _joined(two, topic)
    await wait_for(lambda: shared(4, topic, one.assignment, two.assignment))
    await wait_for(lambda: len(first.messages + second.messages) >= 200)
    crash(two)
    write(broker.bootstrap, topic, [f"b{number}" for number in range(200)], 4)
    await wait_for(lambda: len(one.assignment) == 4)
    await wait_for(lambda: len(set(first.values + second.values)) == 400)
    await one.shutdown()


async def test_a_reader_that_takes_its_time_stays_a_member(
    broker: Broker, topic: str, fresh_name: Callable[[], str]
) -> None:
    """A machine may stand still as long as a short session: then a longer one is tried."""
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, ["a", "b"])
    for session_ms in (1000, 4000, 16_000):
        group = fresh_name()
        one = connector(broker.bootstrap, group, session_timeout_ms=session_ms, heartbeat_interval_ms=200)
        stream = (await one.create_message_streams({topic: 1}))[topic][0]
        assert (await anext(stream)).value == b"a"
        member = one.member
        assert member is not None
        before = member.member_id, member.generation
        await sleep(1.5 * session_ms / 1000)
        stays = (member.member_id, member.generation) == before
        if stays:
            await one.commit_offsets()
            assert committed(broker.bootstrap, group, topic, 1) == [1]
            assert (await anext(stream)).value == b"b"
        await one.shutdown()
        if stays:
            break
    assert stays


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_broker_that_restarts(new_broker: Callable[..., Broker], topic: str, group: str, how: str) -> None:
    broker = new_broker()
    broker.start()
    create(broker.bootstrap, topic, 3)
    write(broker.bootstrap, topic, [f"a{number}" for number in range(300)], 3)
    consumer = connector(broker.bootstrap, group, auto_commit_interval_ms=50, session_timeout_ms=30_000)
    collector = await _joined(consumer, topic)
    await wait_for(lambda: len(collector.messages) == 300)
    await deferToThread(getattr(broker, how))
    await sleep(0.3)
    await deferToThread(broker.start)
    write(broker.bootstrap, topic, [f"b{number}" for number in range(300)], 3)
    write(broker.bootstrap, topic, ["c0", "c1", "c2"], 3)  # come behind repeated ones
    await wait_for(lambda: {"c0", "c1", "c2"} <= set(collector.values))
    await consumer.shutdown()
    expected = [f"{letter}{number}" for letter in "ab" for number in range(300)]
    assert sorted(collector.values) == sorted([*expected, "c0", "c1", "c2"])
    assert committed(broker.bootstrap, group, topic, 3) == [201] * 3


async def test_a_static_member_comes_back(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic, 2)
    settings = {"group_instance_id": "one", "session_timeout_ms": 60_000}
    other = connector(broker.bootstrap, group, group_instance_id="other", session_timeout_ms=60_000)
    first = connector(broker.bootstrap, group, **settings)
    await _joined(first, topic)
    await _joined(other, topic)
    await wait_for(lambda: shared(2, topic, first.assignment, other.assignment))
    member = other.member
    assert member is not None
    generation, mine = member.generation, first.assignment
    await first.shutdown()
    again = connector(broker.bootstrap, group, **settings)
    await _joined(again, topic)
    await wait_for(lambda: again.assignment == mine)
    assert member.generation == generation
    await again.shutdown()
    await other.shutdown()


async def test_a_static_member_is_fenced_by_another_of_its_name(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    notes = Notes()
    first = connector(broker.bootstrap, group, group_instance_id="one", listener=notes)
    stream = (await first.create_message_streams({topic: 1}))[topic][0]
    second = connector(broker.bootstrap, group, group_instance_id="one")
    await _joined(second, topic)
    with pytest.raises(KafkaError) as caught:
        await stream.get_many()
    assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID
    assert await stream.get_many() == []
    assert first.assignment == frozenset()
    assert notes.reported == [("assigned", [(topic, 0)]), ("lost", [(topic, 0)])]
    await first.shutdown()
    await second.shutdown()


class Notes:
    """A listener that records its notifications."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, list[TopicPartition]]] = []

    def assigned(self, partitions: object) -> None:
        self.reported.append(("assigned", sorted(partitions)))  # type: ignore[call-overload]

    async def revoked(self, partitions: object) -> None:
        await sleep(0.05)
        self.reported.append(("revoked", sorted(partitions)))  # type: ignore[call-overload]

    def lost(self, partitions: object) -> None:
        self.reported.append(("lost", sorted(partitions)))  # type: ignore[call-overload]


async def test_listeners(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic, 2)
    notes = Notes()
    settings = {"partition_assignment_strategy": "cooperative-sticky"}
    one = connector(broker.bootstrap, group, listener=notes, **settings)
    await _joined(one, topic)
    two = connector(broker.bootstrap, group, **settings)
    await _joined(two, topic)
    await wait_for(lambda: shared(2, topic, one.assignment, two.assignment))
    await two.shutdown()
    await wait_for(lambda: len(one.assignment) == 2)
    await one.shutdown()
    reported = [each for each in notes.reported if each[1]]
    given_away = reported[1][1]
    assert reported == [
        ("assigned", [(topic, 0), (topic, 1)]),
        ("revoked", given_away),
        ("assigned", given_away),
        ("revoked", [(topic, 0), (topic, 1)]),
    ]
    assert len(given_away) == 1


async def test_a_reader_that_is_busy_is_waited_for(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic, 2)
    write(broker.bootstrap, topic, [str(number) for number in range(20)], 2)
    one = connector(broker.bootstrap, group, rebalance_wait_ms=10_000)
    stream = (await one.create_message_streams({topic: 1}))[topic][0]
    held = await stream.get_many(5)
    two = connector(broker.bootstrap, group)
    joining = ensureDeferred(_joined(two, topic))
    await wait_for(lambda: one.assignment == frozenset())
    await sleep(0.3)
    assert not joining.called  # the reader may still be busy with what it was given
    rest = Collector(stream)
    second = await joining
    write(broker.bootstrap, topic, ["20", "21"], 2)  # come behind repeated ones
    await wait_for(lambda: {"20", "21"} <= {*rest.values, *second.values})
    assert sorted(int(each.value) for each in [*held, *rest.messages, *second.messages]) == list(range(22))
    await one.shutdown()
    await two.shutdown()
