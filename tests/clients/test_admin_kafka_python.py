"""kafka-python's admin client: topics, partitions, settings, groups, offsets, records, cluster, log directories."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, MemberToRemove, OffsetSpec
from kafka.errors import (
    GroupIdNotFoundError,
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import admin_client, create_topic, eventually
from tests.clients.members.member_process import Member, until_shared
from tests.clients.model import Rec
from tests.support.brokers import Broker


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    with admin_client(broker.bootstrap) as client:
        yield client


def topic_settings(admin: KafkaAdminClient, topic: str, which: str = "all") -> dict[str, Any]:
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic)
    found = admin.describe_configs([wanted], include_synonyms=True, config_filter=which)
    return dict(found["topic"][topic])


def test_topics_are_created_listed_described_and_deleted(admin: KafkaAdminClient, topic: str) -> None:
    created = admin.create_topics(
        {topic: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "123456"}}},
        wait_for_metadata=True,
    )["topics"][0]
    assert (created["num_partitions"], created["replication_factor"]) == (3, 1)
    assert created["configs"]["retention.ms"]["value"] == "123456"
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert described["topic_id"] == created["topic_id"]
    assert {each["partition_index"] for each in described["partitions"]} == {0, 1, 2}
    assert all(each["leader_id"] in each["isr_nodes"] for each in described["partitions"])
    (by_id,) = admin.describe_topics([uuid.UUID(str(described["topic_id"]))])
    assert by_id["name"] == topic
    admin.delete_topics([topic])
    eventually(lambda: topic in admin.list_topics(), False)


def test_topic_is_recreated_after_its_deletion(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    KafkaPython().write(bootstrap, topic, [Rec(b"of the first")])
    (first,) = admin.describe_topics([topic])
    admin.delete_topics([topic])
    create_topic(bootstrap, topic)
    (second,) = admin.describe_topics([topic])
    assert first["topic_id"] != second["topic_id"]
    assert KafkaPython().read(bootstrap, topic, [0]) == []


def test_invalid_topics_are_not_created(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    one = {"num_partitions": 1, "replication_factor": 1}
    rejected: list[tuple[str, dict[str, Any], type[Exception]]] = [
        (topic, one, TopicAlreadyExistsError),
        ("bad name!", one, InvalidTopicError),
        ("..", one, InvalidTopicError),
        ("x" * 250, one, InvalidTopicError),
        (f"{topic}-a", {**one, "replication_factor": 100}, InvalidReplicationFactorError),
        (f"{topic}-b", {**one, "num_partitions": 0}, InvalidPartitionsError),
        (f"{topic}-c", {**one, "configs": {"no.such.setting": "1"}}, InvalidConfigurationError),
        (f"{topic}-d", {**one, "configs": {"retention.ms": "many"}}, InvalidConfigurationError),
        (f"{topic}-e", {**one, "configs": {"cleanup.policy": "forget"}}, InvalidConfigurationError),
    ]
    for name, wanted, error in rejected:
        with pytest.raises(error):
            admin.create_topics({name: wanted})
    assert not [name for name, _, _ in rejected[1:] if name in admin.list_topics()]


def test_validation_alone_creates_nothing(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, validate_only=True)
    assert topic not in admin.list_topics()


def test_deletion_of_an_unknown_topic(admin: KafkaAdminClient, topic: str) -> None:
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_partitions_are_added(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    KafkaPython().write(bootstrap, topic, [Rec(b"before", partition=1)])
    admin.create_partitions({topic: 5})
    admin.wait_for_topics([topic])
    KafkaPython().write(bootstrap, topic, [Rec(b"after", partition=4)])
    found = KafkaPython().read(bootstrap, topic, [0, 1, 2, 3, 4])
    assert [(record.partition, record.value) for record in found] == [(1, b"before"), (4, b"after")]
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 3})


def test_topic_settings_are_all_described(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, configs={"retention.ms": "123456"})
    settings = topic_settings(admin, topic)
    expected = {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "delete.retention.ms": "86400000",
        "flush.messages": "9223372036854775807",
        "index.interval.bytes": "4096",
        "max.message.bytes": "1048588",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": "1",
        "retention.bytes": "-1",
        "retention.ms": "123456",
        "segment.bytes": "1073741824",
        "segment.index.bytes": "10485760",
        "unclean.leader.election.enable": "false",
    }
    assert {name: settings[name]["value"] for name in expected} == expected
    retention = settings["retention.ms"]
    assert (retention["config_source"], retention["config_type"]) == ("DYNAMIC_TOPIC_CONFIG", "LONG")
    assert retention["synonyms"][0] | {"source": ""} == {"name": "retention.ms", "value": "123456", "source": ""}
    assert settings["segment.bytes"]["config_source"] == "DEFAULT_CONFIG"
    assert settings["cleanup.policy"]["config_type"] == "LIST"
    assert set(topic_settings(admin, topic, "modified")) == {"retention.ms"}


@pytest.mark.parametrize("incremental", [True, False])
def test_topic_settings_are_altered(admin: KafkaAdminClient, bootstrap: str, topic: str, incremental: bool) -> None:
    create_topic(bootstrap, topic, configs={"retention.ms": "123456", "segment.bytes": "20000"})

    def alter(configs: dict[str, Any]) -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
        return admin.alter_configs([resource], incremental=incremental)["topic"][topic]

    assert alter({"retention.ms": "98765"}) == "OK"
    eventually(lambda: topic_settings(admin, topic)["retention.ms"]["value"], "98765")
    assert topic_settings(admin, topic)["segment.bytes"]["value"] == "20000"
    assert "InvalidConfig" in alter({"retention.ms": "-5"})
    assert admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": None})])
    eventually(lambda: set(topic_settings(admin, topic, "modified")), {"segment.bytes"})


def test_list_setting_is_appended_to_and_subtracted_from(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    for operation, expected in (("append", {"delete", "compact"}), ("subtract", {"delete"})):
        change = ConfigResource(ConfigResourceType.TOPIC, topic, {"cleanup.policy": (operation, "compact")})
        assert admin.alter_configs([change])["topic"][topic] == "OK"
        eventually(lambda: set(topic_settings(admin, topic)["cleanup.policy"]["value"].split(",")), expected)


def test_broker_settings_are_described(admin: KafkaAdminClient) -> None:
    (broker_id,) = [each["broker_id"] for each in admin.describe_cluster()["brokers"]]
    wanted = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
    settings = admin.describe_configs([wanted], config_filter="all")["broker"][str(broker_id)]
    assert settings["group.initial.rebalance.delay.ms"]["value"] == "0"
    assert settings["log.retention.hours"]["value"] == "168"
    assert settings["log.retention.hours"]["config_type"] == "INT"
    assert settings["log.dirs"]["read_only"]


def test_cluster_is_described(admin: KafkaAdminClient, bootstrap: str) -> None:
    cluster = admin.describe_cluster()
    (one,) = cluster["brokers"]
    assert f"{one['host']}:{one['port']}" == bootstrap
    assert cluster["controller_id"] == one["broker_id"]
    assert cluster["cluster_id"]


def test_records_are_deleted(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    KafkaPython().write(bootstrap, topic, [Rec(str(number).encode()) for number in range(10)])
    partition = TopicPartition(topic, 0)
    assert admin.delete_records({partition: 4})[partition]["low_watermark"] == 4
    assert [record.offset for record in KafkaPython().read(bootstrap, topic, [0])] == [4, 5, 6, 7, 8, 9]
    assert admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})[partition].offset == 4
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 11})
    assert admin.delete_records({partition: -1})[partition]["low_watermark"] == 10
    assert KafkaPython().read(bootstrap, topic, [0]) == []


def test_log_directories_are_described(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    KafkaPython().write(bootstrap, topic, [Rec(b"x" * 10_000, partition=1)])
    (answer,) = admin.describe_log_dirs({topic: [0, 1]})
    sizes = {
        each["partition_index"]: each["partition_size"]
        for directory in answer["log_dirs"]
        for found in directory["topics"]
        for each in found["partitions"]
        if found["name"] == topic
    }
    assert sizes[0] == 0
    assert 10_000 < sizes[1] < 10_200


def test_topic_partitions_are_described_page_by_page(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 5)
    found: list[int] = []
    cursor = None
    while len(found) < 5:
        answer = admin.describe_topic_partitions([topic], response_partition_limit=2, cursor=cursor)
        found += [each["partition_index"] for each in answer["topics"][0]["partitions"]]
        cursor = answer["next_cursor"]
    assert found == [0, 1, 2, 3, 4]


def test_group_offsets_are_altered_reset_and_deleted(
    admin: KafkaAdminClient, bootstrap: str, topic: str, group: str
) -> None:
    create_topic(bootstrap, topic, 2)
    KafkaPython().write(bootstrap, topic, [Rec(b"x", partition=each % 2) for each in range(10)])
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    wanted = {zero: OffsetAndMetadata(2, "zwei", -1), one: OffsetAndMetadata(3, "drei", -1)}
    assert {error.errno for error in admin.alter_group_offsets(group, wanted).values()} == {0}
    found = admin.list_group_offsets(group)[group]
    assert {key: (value.offset, value.metadata) for key, value in found.items()} == {
        zero: (2, "zwei"),
        one: (3, "drei"),
    }
    admin.reset_group_offsets(group, {zero: OffsetSpec.LATEST})
    assert admin.list_group_offsets({group: [zero]})[group][zero].offset == 5
    admin.delete_group_offsets(group, [zero])
    assert set(admin.list_group_offsets(group)[group]) == {one}


def test_group_is_listed_described_and_deleted(admin: KafkaAdminClient, bootstrap: str, topic: str, group: str) -> None:
    create_topic(bootstrap, topic, 2)
    member = Member("kafka-python", bootstrap, group, topic)
    try:
        until_shared([member], 2)
        described = admin.describe_groups([group])[group]
        assert (described["group_state"], described["protocol_type"]) == ("Stable", "consumer")
        assert described["protocol_data"] == "range"
        (found,) = described["members"]
        assert found["client_host"].endswith("127.0.0.1")
        assert group in [each["group_id"] for each in admin.list_groups(states_filter=["Stable"])]
        assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
        member.commit()
        member.leave()
    finally:
        member.process.kill()
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    assert group in [each["group_id"] for each in admin.list_groups(states_filter=["Empty"])]
    assert admin.delete_groups([group]) == {group: "OK"}
    assert group not in [each["group_id"] for each in admin.list_groups()]
    assert admin.delete_groups([group]) == {group: GroupIdNotFoundError.__name__}
    assert admin.describe_groups([group])[group]["group_state"] == "Dead"


def test_member_is_removed_by_the_administrator(
    admin: KafkaAdminClient, bootstrap: str, topic: str, group: str
) -> None:
    create_topic(bootstrap, topic, 2)
    members = [Member("kafka-python", bootstrap, group, topic, instance=name) for name in ("a", "b")]
    try:
        until_shared(members, 2)
        members[1].process.kill()
        admin.remove_group_members(group, [MemberToRemove(group_instance_id="b")])
        until_shared(members[:1], 2)
    finally:
        for each in members:
            each.process.kill()


def test_unknown_topic_is_not_created_by_looking(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    (described,) = admin.describe_topics([topic])
    assert described["error_code"] == UnknownTopicOrPartitionError.errno
    assert topic not in admin.list_topics()


def test_producer_learns_of_partitions_that_are_added(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1)
    producer = KafkaProducer(bootstrap_servers=bootstrap, metadata_max_age_ms=200)
    try:
        assert producer.partitions_for(topic) == {0}
        admin.create_partitions({topic: 2})
        admin.wait_for_topics([topic])
        sent = producer.send(topic, b"x", partition=0).get(timeout=120)
        assert sent.offset == 0
    finally:
        producer.close()
