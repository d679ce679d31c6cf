"""Connectors in groups whose coordinator assigns (KIP-848): alone, together, and with other clients.

`--against kafka4` runs these tests against Apache Kafka 4.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner
from twisted.internet.threads import deferToThread

from pylogbroker.cli import main
from pylogbroker.client import Blacklist, ConsumerConnector, Whitelist
from pylogbroker.client.consumer.epoch_member import EpochMember
from pylogbroker.client.consumer.epoch_member_driver import EpochMemberDriver
from pylogbroker.client.sync import ConsumerConnector as SyncConnector
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.client.consumer_harness import Collector, Confluent, committed, create, grow, write
from tests.client.test_connector_groups import confluent, crash, shared
from tests.support.brokers import Broker
from tests.support.reactor_run import wait_for
from tests.support.shared_brokers import shared_group_broker

__all__ = ["confluent"]


@pytest.fixture
def group_broker(pytestconfig: pytest.Config) -> Broker:
    if pytestconfig.getoption("--against") not in ("", "kafka4"):
        pytest.skip("consumer groups of KIP-848 need settings of their own")
    return shared_group_broker(pytestconfig)


def connector(bootstrap: str, group: str, **settings: Any) -> ConsumerConnector:
    return ConsumerConnector(
        bootstrap, group=group, **{"group_protocol": "consumer", "auto_offset_reset": "earliest", **settings}
    )


async def joined(consumer: ConsumerConnector, topic: str, streams: int = 1) -> Collector:
    return Collector(*(await consumer.create_message_streams({topic: streams}))[topic])


async def heartbeats(consumer: ConsumerConnector, count: int) -> None:
    """Wait for answered heartbeats: each moves the time of the next one."""
    member = consumer.member
    assert isinstance(member, EpochMemberDriver)
    for _ in range(count):
        await wait_for(partial(is_later, member._machine, member._machine._due))


def is_later(machine: EpochMember, before: int) -> bool:
    return machine._due > before


class Listener:
    """Writes down what it hears."""

    def __init__(self, on_revoked: Callable[[], Any] = lambda: None) -> None:
        self.heard: list[tuple[str, set[TopicPartition]]] = []
        self._on_revoked = on_revoked

    def assigned(self, partitions: Any) -> None:
        if partitions:
            self.heard.append(("assigned", set(partitions)))

    def revoked(self, partitions: Any) -> Any:
        self.heard.append(("revoked", set(partitions)))
        return self._on_revoked()

    def lost(self, partitions: Any) -> None:
        self.heard.append(("lost", set(partitions)))


async def test_members_come_and_go(group_broker: Broker, topic: str, group: str) -> None:
    bootstrap = group_broker.bootstrap
    create(bootstrap, topic, 6)
    write(bootstrap, topic, [f"a{number}" for number in range(600)], 6)
    one, two = (connector(bootstrap, group, auto_commit_interval_ms=100) for _ in range(2))
    first = await joined(one, topic, 2)
    await wait_for(lambda: len(first.messages) == 600)
    second = await joined(two, topic)
    await wait_for(lambda: shared(6, topic, one.assignment, two.assignment))
    await one.commit_offsets()
    write(bootstrap, topic, [f"b{number}" for number in range(600)], 6)
    await wait_for(lambda: len(first.values + second.values) == 1200)
    await one.shutdown()
    await wait_for(lambda: len(two.assignment) == 6)
    write(bootstrap, topic, [f"c{number}" for number in range(600)], 6)
    await wait_for(lambda: len(first.values + second.values) == 1800)
    await two.shutdown()
    assert set(Counter(first.values + second.values).values()) == {1}
    assert committed(bootstrap, group, topic, 6) == [300] * 6


async def test_mixed_with_classic_members_and_librdkafka(
    group_broker: Broker, topic: str, group: str, confluent: Callable[..., Confluent]
) -> None:
    bootstrap = group_broker.bootstrap
    create(bootstrap, topic, 6)
    classic = ConsumerConnector(
        bootstrap, group=group, auto_offset_reset="earliest", heartbeat_interval_ms=100, assignor="cooperative-sticky"
    )
    first = await joined(classic, topic)
    ours = connector(bootstrap, group)
    second = await joined(ours, topic)
    await wait_for(lambda: shared(6, topic, classic.assignment, ours.assignment))
    other = confluent(bootstrap, group, [topic], **{"group.protocol": "consumer"})
    await wait_for(lambda: shared(6, topic, classic.assignment, ours.assignment, other.assignment))
    write(bootstrap, topic, [str(number) for number in range(600)], 6)
    await wait_for(lambda: len(first.values + second.values + other.values) == 600)
    await deferToThread(other.close)
    await wait_for(lambda: shared(6, topic, classic.assignment, ours.assignment))
    await ours.shutdown()
    await wait_for(lambda: len(classic.assignment) == 6)
    await classic.shutdown()
    assert sorted(map(int, first.values + second.values + other.values)) == list(range(600))


async def test_offsets_are_committed_before_the_group_goes_on(group_broker: Broker, topic: str, group: str) -> None:
    bootstrap = group_broker.bootstrap
    create(bootstrap, topic, 2)
    write(bootstrap, topic, [str(number) for number in range(200)], 2)
    held: list[int] = []

    async def commit() -> None:
        await heartbeats(two, 3)
        held.append(len(two.assignment))
        await one.commit_offsets()

    listener = Listener(commit)
    one = connector(bootstrap, group, enable_auto_commit=False, listener=listener)
    two = connector(bootstrap, group, enable_auto_commit=False)
    first = await joined(one, topic)
    await wait_for(lambda: len(first.messages) == 200)
    second = await joined(two, topic)
    await wait_for(lambda: shared(2, topic, one.assignment, two.assignment))
    assert held == [0], "the other member got a partition before it was revoked"
    assert [what for what, _ in listener.heard] == ["assigned", "revoked"]
    await two.commit_offsets()
    write(bootstrap, topic, ["200", "201"], 2)
    await wait_for(lambda: len(first.messages) + len(second.messages) == 202)
    for consumer in (one, two):
        await consumer.shutdown()


async def test_an_expression_is_evaluated_by_the_broker(
    group_broker: Broker, fresh_name: Callable[[], str], group: str
) -> None:
    stem = fresh_name()
    for name in ("a", "b", "other"):
        create(group_broker.bootstrap, f"{stem}.{name}")
    consumer = connector(group_broker.bootstrap, group)
    await consumer.create_message_streams_by_filter(Whitelist(rf"{stem}\.[ab],{stem}\.late"))
    await wait_for(lambda: {topic for topic, _ in consumer.assignment} == {f"{stem}.a", f"{stem}.b"})
    assert not consumer._cluster._updater.all_topics
    await consumer.shutdown()


async def test_a_blacklist_is_evaluated_by_the_client(
    group_broker: Broker, fresh_name: Callable[[], str], group: str
) -> None:
    stem = fresh_name()
    for name in ("a", "b"):
        create(group_broker.bootstrap, f"{stem}.{name}")
    consumer = connector(group_broker.bootstrap, group, metadata_max_age_ms=200)
    await consumer.create_message_streams_by_filter(Blacklist(rf"(?!{stem}).*,{stem}\.b"))
    await wait_for(lambda: {topic for topic, _ in consumer.assignment} == {f"{stem}.a"})
    create(group_broker.bootstrap, f"{stem}.c", 2)
    await wait_for(lambda: len(consumer.assignment) == 3)
    await consumer.shutdown()


async def test_an_expression_that_the_broker_rejects(group_broker: Broker, group: str) -> None:
    consumer = connector(group_broker.bootstrap, group)
    with pytest.raises(KafkaError) as caught:
        await consumer.create_message_streams_by_filter(Whitelist("a(?=b)"))
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    await consumer.shutdown()


async def test_an_unknown_assignor(group_broker: Broker, topic: str, group: str) -> None:
    create(group_broker.bootstrap, topic)
    consumer = connector(group_broker.bootstrap, group, group_remote_assignor="magic")
    with pytest.raises(KafkaError) as caught:
        await consumer.create_message_streams({topic: 1})
    assert caught.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    await consumer.shutdown()


async def test_new_partitions_and_a_topic_that_is_created_later(group_broker: Broker, topic: str, group: str) -> None:
    consumer = connector(group_broker.bootstrap, group, allow_auto_create_topics=False, group_remote_assignor="range")
    collector = await joined(consumer, topic)
    assert consumer.assignment == frozenset()
    create(group_broker.bootstrap, topic)
    await wait_for(lambda: consumer.assignment == {(topic, 0)})
    grow(group_broker.bootstrap, topic, 3)
    await wait_for(lambda: len(consumer.assignment) == 3)
    write(group_broker.bootstrap, topic, [str(number) for number in range(30)], 3)
    await wait_for(lambda: len(collector.messages) == 30)
    await consumer.shutdown()


async def test_a_dead_member_is_replaced(group_broker: Broker, topic: str, group: str) -> None:
    create(group_broker.bootstrap, topic, 4)
    one, two = (connector(group_broker.bootstrap, group) for _ in range(2))
    await joined(one, topic)
    await joined(two, topic)
    await wait_for(lambda: shared(4, topic, one.assignment, two.assignment))
    crash(one)
    await wait_for(lambda: len(two.assignment) == 4)
    await two.shutdown()


async def test_a_static_member_keeps_its_partitions(group_broker: Broker, topic: str, group: str) -> None:
    create(group_broker.bootstrap, topic, 4)
    listener = Listener()
    one = connector(group_broker.bootstrap, group, group_instance_id="one")
    two = connector(group_broker.bootstrap, group, group_instance_id="two", listener=listener)
    await joined(one, topic)
    await joined(two, topic)
    await wait_for(lambda: shared(4, topic, one.assignment, two.assignment))
    before = one.assignment
    await one.shutdown()
    again = connector(group_broker.bootstrap, group, group_instance_id="one")
    await joined(again, topic)
    await wait_for(lambda: again.assignment == before)
    assert len(listener.heard) == 1, "the others saw a rebalance"
    for consumer in (again, two):
        await consumer.shutdown()


async def test_an_instance_id_of_a_living_member(group_broker: Broker, topic: str, group: str) -> None:
    create(group_broker.bootstrap, topic)
    one = connector(group_broker.bootstrap, group, group_instance_id="one")
    await joined(one, topic)
    twin = connector(group_broker.bootstrap, group, group_instance_id="one", default_api_timeout_ms=500)
    with pytest.raises(KafkaError, match="give each running consumer its own") as caught:
        await twin.create_message_streams({topic: 1})
    assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
    await twin.shutdown()
    await one.shutdown()


async def test_an_instance_id_of_a_dead_member_is_waited_for(group_broker: Broker, topic: str, group: str) -> None:
    create(group_broker.bootstrap, topic)
    one = connector(group_broker.bootstrap, group, group_instance_id="one")
    await joined(one, topic)
    crash(one)
    again = connector(group_broker.bootstrap, group, group_instance_id="one")
    await joined(again, topic)
    await wait_for(lambda: again.assignment == {(topic, 0)})
    await again.shutdown()


async def test_a_removed_member_joins_again(group_broker: Broker, topic: str, group: str) -> None:
    create(group_broker.bootstrap, topic, 2)
    listener = Listener()
    consumer = connector(group_broker.bootstrap, group, listener=listener)
    collector = await joined(consumer, topic)
    await wait_for(lambda: len(consumer.assignment) == 2)
    member = consumer.member
    assert member is not None
    node = await consumer._cluster.coordinator(group, 0)  # type: ignore[arg-type]
    await leave_for(consumer, node, group, member.member_id)
    await wait_for(lambda: [what for what, _ in listener.heard] == ["assigned", "lost", "assigned"])
    write(group_broker.bootstrap, topic, ["x", "y"], 2)
    await wait_for(lambda: len(collector.messages) == 2)
    await consumer.shutdown()


async def leave_for(consumer: ConsumerConnector, node: int, group: str, member_id: str) -> None:
    answer = await consumer._cluster.send(node, ConsumerGroupHeartbeatRequest(group, member_id, -1))
    assert not answer.error_code


async def test_a_broker_without_such_groups(new_broker: Callable[..., Broker], against: str) -> None:
    if against:
        pytest.skip("Kafka 4 has these groups always")
    broker = new_broker({"group.coordinator.rebalance.protocols": "classic"})
    broker.start()
    create(broker.bootstrap, "t")
    consumer = connector(broker.bootstrap, "g")
    with pytest.raises(KafkaError, match=r"set group\.protocol=classic for this broker"):
        await consumer.create_message_streams({"t": 1})
    await consumer.shutdown()


def test_without_twisted(group_broker: Broker, topic: str, group: str) -> None:
    create(group_broker.bootstrap, topic, 2)
    write(group_broker.bootstrap, topic, [str(number) for number in range(100)], 2)
    settings = {"group.protocol": "consumer", "auto.offset.reset": "earliest"}
    with SyncConnector(group_broker.bootstrap, group=group, settings=settings) as consumer:
        stream = consumer.stream(topic)
        values = []
        while len(values) < 100:
            message = stream.get(60)
            assert message is not None
            values.append(int(message.value))
    assert sorted(values) == list(range(100))
    assert committed(group_broker.bootstrap, group, topic, 2) == [50, 50]


def test_the_command_is_a_member(group_broker: Broker, topic: str, group: str) -> None:
    create(group_broker.bootstrap, topic, 2)
    write(group_broker.bootstrap, topic, ["a", "b"], 2)
    options = ("-g", group, "--group-protocol", "consumer", "-n", "2", "-b", group_broker.bootstrap)
    outcome = CliRunner().invoke(main, ["consume", topic, *options])
    assert (sorted(outcome.stdout.split()), outcome.exit_code) == (["a", "b"], 0)
    assert committed(group_broker.bootstrap, group, topic, 2) == [1, 1]
    wrong = CliRunner().invoke(main, ["consume", topic, *options[2:]])
    assert "--group-protocol needs --group" in wrong.output
