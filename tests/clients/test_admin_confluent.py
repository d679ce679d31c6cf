"""confluent-kafka's admin client: topics, partitions, settings, groups, offsets, records, cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.adapters.base import TIMEOUT
from tests.clients.adapters.confluent import Confluent
from tests.clients.admin import create_topic, eventually
from tests.clients.members.member_process import Member, until_shared
from tests.clients.model import START, Rec
from tests.support.brokers import Broker


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def only(futures: dict[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    return future.result(TIMEOUT)


def settings_of(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    return dict(only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])))


def test_topics_are_created_described_and_deleted(admin: AdminClient, topic: str) -> None:
    only(admin.create_topics([NewTopic(topic, 3, 1, config={"retention.ms": "123456"})]))
    eventually(lambda: topic in admin.list_topics(timeout=TIMEOUT).topics, True)
    assert set(admin.list_topics(topic, TIMEOUT).topics[topic].partitions) == {0, 1, 2}
    with pytest.raises(KafkaException) as rejected:
        only(admin.create_topics([NewTopic(topic, 3, 1)]))
    assert rejected.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    only(admin.delete_topics([topic]))
    eventually(lambda: topic in admin.list_topics(timeout=TIMEOUT).topics, False)


def test_default_numbers_of_partitions_and_replicas(admin: AdminClient, topic: str) -> None:
    only(admin.create_topics([NewTopic(topic, -1, -1)]))
    eventually(lambda: len(admin.list_topics(topic, TIMEOUT).topics[topic].partitions), 1)


def test_topics_are_described_with_ids(admin: AdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    found = only(admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True))
    assert str(found.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")
    assert [each.id for each in found.partitions] == [0, 1]
    assert all(each.leader.id == each.isr[0].id for each in found.partitions)
    assert not found.is_internal
    assert found.authorized_operations


def test_partitions_are_added(admin: AdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    only(admin.create_partitions([NewPartitions(topic, 4)]))
    eventually(lambda: len(admin.list_topics(topic, TIMEOUT).topics[topic].partitions), 4)


def test_settings_are_described_and_altered(admin: AdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, configs={"delete.retention.ms": "123456"})
    settings = settings_of(admin, topic)
    assert settings["delete.retention.ms"].value == "123456"
    assert ConfigSource(settings["delete.retention.ms"].source) == ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert settings["segment.bytes"].value == "1073741824"
    assert settings["segment.bytes"].is_default
    change = ConfigEntry("delete.retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    only(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])]))
    eventually(lambda: settings_of(admin, topic)["delete.retention.ms"].value, "5000")
    change = ConfigEntry("delete.retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)
    only(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])]))
    eventually(lambda: settings_of(admin, topic)["delete.retention.ms"].value, "86400000")


def test_settings_are_replaced_as_a_whole(admin: AdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, configs={"delete.retention.ms": "123456"})
    only(admin.alter_configs([ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "20000"})]))
    eventually(lambda: settings_of(admin, topic)["segment.bytes"].value, "20000")
    assert settings_of(admin, topic)["delete.retention.ms"].value == "86400000"


def test_cluster_is_described(admin: AdminClient, bootstrap: str) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT)
    (node,) = cluster.nodes
    assert f"{node.host}:{node.port}" == bootstrap
    assert cluster.controller.id == node.id
    assert cluster.cluster_id
    assert cluster.authorized_operations


def test_offsets_are_listed(admin: AdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    times = (START + 10, START + 30, START + 20)
    Confluent().write(bootstrap, topic, [Rec(b"x", timestamp=each) for each in times])

    def at(wanted: OffsetSpec) -> tuple[int, int]:
        level = IsolationLevel.READ_COMMITTED
        found = only(admin.list_offsets({TopicPartition(topic, 0): wanted}, isolation_level=level))
        return found.offset, found.timestamp

    assert at(OffsetSpec.earliest())[0] == 0
    assert at(OffsetSpec.latest())[0] == 3
    assert at(OffsetSpec.max_timestamp()) == (1, START + 30)
    assert at(OffsetSpec.for_timestamp(START + 11)) == (1, START + 30)
    assert at(OffsetSpec.for_timestamp(START + 31))[0] == -1


def test_records_are_deleted(admin: AdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    Confluent().write(bootstrap, topic, [Rec(str(number).encode()) for number in range(10)])
    assert only(admin.delete_records([TopicPartition(topic, 0, 6)])).low_watermark == 6
    assert [record.offset for record in Confluent().read(bootstrap, topic, [0])] == [6, 7, 8, 9]


@pytest.fixture
def member(bootstrap: str, topic: str, group: str) -> Iterator[Member]:
    create_topic(bootstrap, topic, 2)
    one = Member("confluent", bootstrap, group, topic)
    yield one
    one.process.kill()


def test_group_is_listed_described_and_deleted(admin: AdminClient, group: str, member: Member) -> None:
    until_shared([member], 2)
    described = only(admin.describe_consumer_groups([group]))
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    (found,) = described.members
    assert [each.partition for each in found.assignment.topic_partitions] == [0, 1]
    with pytest.raises(KafkaException) as rejected:
        only(admin.delete_consumer_groups([group]))
    assert rejected.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    member.commit()
    member.leave()
    states = {ConsumerGroupState.EMPTY}
    listed = admin.list_consumer_groups(states=states).result(TIMEOUT).valid
    assert group in [each.group_id for each in listed]
    only(admin.delete_consumer_groups([group]))
    assert group not in [each.group_id for each in admin.list_consumer_groups().result(TIMEOUT).valid]


def test_group_offsets_are_altered_and_listed(admin: AdminClient, bootstrap: str, topic: str, group: str) -> None:
    create_topic(bootstrap, topic, 2)
    wanted = [TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 4)]
    only(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))
    found = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])).topic_partitions
    assert {(each.topic, each.partition, each.offset) for each in found} == {(topic, 0, 3), (topic, 1, 4)}
