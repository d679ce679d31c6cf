"""The admin client on running brokers, compared with librdkafka's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicCollection
from confluent_kafka import Producer as OtherProducer
from confluent_kafka.admin import AdminClient as OtherAdmin
from confluent_kafka.admin import ConfigResource as OtherResource

from pylogbroker.client.admin import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    AdminClient,
    CommittedOffset,
    ConfigOperation,
    ConfigResource,
    ItemsFailed,
    ListedOffset,
    MemberToRemove,
    NewTopic,
    SettingChange,
)
from pylogbroker.client.sync import AdminClient as BlockingAdmin
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from tests.support.brokers import Broker
from tests.support.reactor_run import wait_for
from tests.support.waiting import wait_until


@pytest.fixture
def other(broker: Broker) -> OtherAdmin:
    """librdkafka's admin client; its answers come only while it lives."""
    return OtherAdmin({"bootstrap.servers": broker.bootstrap})


def write(broker: Broker, topic: str, *timestamps: int, partition: int = 0) -> None:
    producer = OtherProducer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for timestamp in timestamps:
        producer.produce(topic, b"value", partition=partition, timestamp=timestamp)
        assert producer.flush(120) == 0


async def created(admin: AdminClient, topic: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic, and wait for its leaders: Kafka answers before it has them."""
    given = {name.replace("_", "."): value for name, value in {"retention_ms": "-1", **configs}.items()}
    await admin.topics.create([NewTopic(topic, partitions, 1, configs=given)])
    for partition in range(partitions):
        await admin._cluster.find_leader(topic, partition)


async def test_topics(broker: Broker, other: OtherAdmin, topic: str) -> None:
    admin = AdminClient(broker.bootstrap)
    second = f"{topic}-second"
    made = await admin.topics.create([NewTopic(topic, 2, 1), NewTopic(second)])
    assert (made[topic].partitions, made[topic].replication_factor) == (2, 1)
    await wait_for(lambda: {topic, second} <= other.list_topics(timeout=60).topics.keys())
    assert {topic, second} <= {each.name for each in await admin.topics.list()}
    found = (await admin.topics.describe([topic]))[topic]
    [theirs] = other.describe_topics(TopicCollection([topic])).values()
    their = theirs.result(60)
    assert str(found.topic_id) == _uuid(their.topic_id)
    assert not found.is_internal
    assert [(each.partition, each.leader, each.replicas, each.isr, each.offline) for each in found.partitions] == [
        (each.id, each.leader.id, tuple(node.id for node in each.replicas), tuple(node.id for node in each.isr), ())
        for each in their.partitions
    ]
    await admin.topics.add_partitions({topic: 5})
    await wait_for(lambda: len(other.list_topics(topic, timeout=60).topics[topic].partitions) == 5)
    await admin.topics.delete([topic, second])
    await wait_for(lambda: not {topic, second} & other.list_topics(timeout=60).topics.keys())
    await admin.close()


async def test_errors_of_topics(broker: Broker, topic: str) -> None:
    """The error of a call's only item is raised; several items have theirs by name."""
    admin = AdminClient(broker.bootstrap)
    await created(admin, topic)
    with pytest.raises(KafkaError, match=f"topic {topic}: ") as caught:
        await admin.topics.create([NewTopic(topic)])
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    missing = f"{topic}-missing"
    with pytest.raises(ItemsFailed, match=f"topic {missing}: ") as failed:
        await admin.topics.describe([topic, missing])
    assert set(failed.value.results) == {topic}
    assert failed.value.errors[missing].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert missing not in {each.name for each in await admin.topics.list()}  # and it was not created
    with pytest.raises(KafkaError) as caught:
        await admin.topics.create([NewTopic(missing, 0)], validate_only=True)
    assert caught.value.code is ErrorCode.INVALID_PARTITIONS
    await admin.topics.create([NewTopic(missing, 1)], validate_only=True)
    with pytest.raises(KafkaError) as caught:
        await admin.records.offsets({(missing, 0): LATEST})
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(ConfigError, match="several names"):
        await admin.topics.delete(topic)
    assert await admin.topics.describe([]) == {}
    await admin.close()


async def test_configs(broker: Broker, other: OtherAdmin, topic: str) -> None:
    admin = AdminClient(broker.bootstrap)
    await created(admin, topic, cleanup_policy="compact")
    resource = ConfigResource.topic(topic)
    await admin.configs.alter(
        {
            resource: [
                SettingChange("retention.ms", ConfigOperation.DELETE),
                SettingChange("segment.bytes", ConfigOperation.SET, "1048576"),
                SettingChange("cleanup.policy", ConfigOperation.APPEND, "delete"),
            ]
        }
    )
    [theirs] = other.describe_configs([OtherResource("topic", topic)]).values()
    found = (await admin.configs.describe([resource], synonyms=True, documentation=True))[resource]
    assert {name: (each.value, each.is_default, each.is_read_only) for name, each in found.items()} == {
        name: (each.value, each.is_default, each.is_read_only) for name, each in theirs.result(60).items()
    }
    assert (found["segment.bytes"].source, found["segment.bytes"].type) == ("topic", "int")
    assert found["segment.bytes"].synonyms[0].value == "1048576"
    assert found["cleanup.policy"].value == "compact,delete"
    assert "segment" in (found["segment.bytes"].documentation or "")
    assert set((await admin.configs.describe([resource], ["retention.ms"]))[resource]) == {"retention.ms"}
    [node] = (await admin.cluster.describe()).brokers
    mine = ConfigResource.broker(node.broker_id)
    assert (await admin.configs.describe([mine], ["log.dirs"]))[mine]["log.dirs"].is_read_only
    with pytest.raises(KafkaError) as caught:
        await admin.configs.alter({resource: [SettingChange("segment.bytes", ConfigOperation.SET, "x")]})
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    with pytest.raises(KafkaError, match="no live broker 77"):
        await admin.configs.describe([ConfigResource.broker(77)])
    await admin.close()


async def test_records(broker: Broker, topic: str) -> None:
    admin = AdminClient(broker.bootstrap)
    await created(admin, topic, 2)
    write(broker, topic, 1000, 3000, 2000)
    first, second = (topic, 0), (topic, 1)
    assert {
        key: each.offset for key, each in (await admin.records.offsets({first: LATEST, second: LATEST})).items()
    } == {
        first: 3,
        second: 0,
    }
    for time, offset in ((EARLIEST, 0), (LATEST, 3), (1001, 1), (MAX_TIMESTAMP, 1), (3001, None)):
        assert (await admin.records.offsets({first: time}))[first].offset == offset, time
    found = (await admin.records.offsets({first: 1001}))[first]
    assert (found.timestamp, isinstance(found, ListedOffset)) == (3000, True)
    assert await admin.records.delete({first: 2}) == {first: 2}
    assert (await admin.records.offsets({first: EARLIEST}))[first].offset == 2
    assert await admin.records.delete({first: -1, second: -1}) == {first: 3, second: 0}
    with pytest.raises(KafkaError) as caught:
        await admin.records.delete({first: 9})
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    await admin.close()


async def test_groups(broker: Broker, other: OtherAdmin, topic: str, group: str) -> None:
    admin = AdminClient(broker.bootstrap)
    await created(admin, topic, 2)
    first, second = (topic, 0), (topic, 1)
    await admin.groups.alter_offsets(group, {first: 3, second: CommittedOffset(4, metadata="why")})
    [theirs] = other.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    assert {(each.partition, each.offset) for each in theirs.result(60).topic_partitions} == {(0, 3), (1, 4)}
    assert await admin.groups.offsets(group) == {first: CommittedOffset(3), second: CommittedOffset(4, metadata="why")}
    assert await admin.groups.offsets(group, [first, (topic, 5)]) == {first: CommittedOffset(3)}
    listed = [each for each in await admin.groups.list() if each.group == group]
    assert [each.state for each in listed] == ["Empty"]
    assert group not in {each.group for each in await admin.groups.list(states=["Stable"])}
    await admin.groups.delete_offsets(group, [second])
    assert set(await admin.groups.offsets(group)) == {first}
    await admin.groups.delete([group])
    assert (await admin.groups.describe([group]))[group].state == "Dead"
    with pytest.raises(KafkaError) as caught:
        await admin.groups.delete([group])
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    await admin.close()


def test_members_of_groups(broker: Broker, topic: str, group: str) -> None:
    with BlockingAdmin(broker.bootstrap, timeout=200) as admin:
        admin.topics.create([NewTopic(topic, 2, 1)])
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "group.id": group, "client.id": "reader"}
        consumer = Consumer({**settings, "group.instance.id": "first", "session.timeout.ms": 60_000})
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.2) is None and len(consumer.assignment()) == 2)
        found = admin.groups.describe([group])[group]
        assert (found.state, found.protocol_type, found.protocol) == ("Stable", "consumer", "range")
        [member] = found.members
        assert (member.instance_id, member.client_id, member.host[:1]) == ("first", "reader", "/")
        assert member.assignment == ((topic, 0), (topic, 1))
        with pytest.raises(KafkaError) as caught:
            admin.groups.delete([group])
        assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
        with pytest.raises(ItemsFailed, match=r"member nobody of group .*: "):
            admin.groups.remove_members(group, [MemberToRemove(instance_id="nobody")])
        admin.groups.remove_members(group)
        assert admin.groups.describe([group])[group].members == ()
        consumer.close()
        with pytest.raises(AttributeError):
            _ = admin.nothing


async def test_the_cluster(broker: Broker, other: OtherAdmin) -> None:
    admin = AdminClient(broker.bootstrap)
    theirs = other.list_topics(timeout=60)
    found = await admin.cluster.describe()
    assert (found.cluster_id, found.controller) == (theirs.cluster_id, theirs.controller_id)
    assert {(each.broker_id, each.host, each.port) for each in found.brokers} == {
        (each.id, each.host, each.port) for each in theirs.brokers.values()
    }
    assert isinstance(await admin.cluster.features(), dict)
    with pytest.raises(KafkaError):
        await admin.cluster.update_features({"no.such.feature": 1})
    await admin.close()


def _uuid(found: Any) -> str:
    high, low = found.get_most_significant_bits(), found.get_least_significant_bits()
    return str(UUID(int=(high % 2**64) << 64 | low % 2**64))
