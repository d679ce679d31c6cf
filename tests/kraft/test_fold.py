"""Records to changes of the image, and to nodes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from uuid import UUID

import pytest

from pylogbroker.errors import CorruptRecords
from pylogbroker.kraft.entities import ChangedNode, Entities
from pylogbroker.kraft.fold import MetadataFold
from pylogbroker.long_loops import advance, at_once
from pylogbroker.metadata.delta import (
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    Delta,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from pylogbroker.metadata.image import (
    ClusterImage,
    LeaderRecovery,
    PartitionState,
    broker_resource,
    client_metrics_resource,
    topic_resource,
)
from pylogbroker.wire.metadata_records import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    QuotaSubject,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

ORDERS, OTHER = UUID(int=1), UUID(int=2)
HERE = 9


def partition(topic: UUID = ORDERS, number: int = 0, **fields: object) -> PartitionRecord:
    given = {"replicas": [1, HERE], "isr": [1, HERE], "leader": 1, "leader_epoch": 0, "partition_epoch": 0} | fields
    return PartitionRecord(number, topic, **given)  # type: ignore[arg-type]


def broker(broker_id: int, epoch: int, fenced: bool = True) -> RegisterBrokerRecord:
    listeners = [BrokerEndpoint("PLAINTEXT", "here", 9092, 0), BrokerEndpoint("SAFE", "here", 9093, 3)]
    return RegisterBrokerRecord(broker_id, False, UUID(int=5), epoch, listeners, rack="r", fenced=fenced)


def fold(*batches: Iterable[MetadataRecord]) -> tuple[MetadataFold, Delta]:
    """Return the fold after some batches, and what the last one changed."""
    made, delta = MetadataFold(HERE), Delta.of()
    for records in batches:
        delta = take(made, records)
    return made, delta


def take(made: MetadataFold, records: Iterable[MetadataRecord]) -> Delta:
    batch = made.begin()
    for record in records:
        batch.apply(record)
    return Delta(tuple(at_once(made.commit(batch))))


def test_a_topic_with_settings_and_partitions_is_one_change() -> None:
    settings = ConfigRecord(2, "orders", "retention.ms", "1000")
    made, delta = fold([TopicRecord("orders", ORDERS), settings, partition(), partition(number=1, leader=HERE)])
    assert [type(change) for change in delta] == [ConfigChanged, TopicCreated]
    topic = made.image.topics["orders"]
    assert (topic.id, set(topic.partitions)) == (ORDERS, {0, 1})
    assert topic.partitions[1] == PartitionState(HERE, (1, HERE), (1, HERE), 0, 0)
    assert made.image.settings(topic_resource("orders")) == {"retention.ms": "1000"}
    assert made.image.partition_count == 2
    assert made.image.topic_by_id(ORDERS) is topic


def test_a_change_keeps_what_it_does_not_name() -> None:
    change = PartitionChangeRecord(0, ORDERS, isr=[HERE])
    made, delta = fold([TopicRecord("orders", ORDERS), partition()], [change])
    after = PartitionState(1, (1, HERE), (HERE,), leader_epoch=0, partition_epoch=1)
    assert list(delta) == [PartitionsChanged("orders", {0: after}, ORDERS)]
    assert made.image.topics["orders"].partitions[0] == after


def test_an_image_that_follows_on_shares_what_has_not_changed() -> None:
    topics = [TopicRecord("orders", ORDERS), partition(), partition(number=1), TopicRecord("other", OTHER)]
    before, _ = fold([*topics, partition(OTHER), broker(1, 10, fenced=False), broker(2, 11, fenced=False)])
    settings = ConfigRecord(2, "orders", "retention.ms", "1000")
    moved = partition(number=1, leader=HERE, leader_epoch=1)
    after, _ = fold([*topics[:2], moved, topics[3], partition(OTHER), broker(1, 12, fenced=False), settings])
    expected = after.image
    changes = at_once(after.follow_on(before.image))
    assert after.image == expected
    assert after.image.topics["other"] is before.image.topics["other"]
    assert {type(change) for change in changes} == {
        ConfigChanged,
        PartitionsChanged,
        BrokerRegistered,
        BrokerUnregistered,
    }


def test_equal_lists_of_brokers_are_one_object() -> None:
    made, _ = fold([TopicRecord("orders", ORDERS), partition(), partition(number=1)])
    take(made, [PartitionChangeRecord(0, ORDERS, isr=[HERE]), PartitionChangeRecord(1, ORDERS, isr=[HERE])])
    one, other = made.image.topics["orders"].partitions.values()
    assert one.replicas is other.replicas
    assert one.isr is other.isr


def test_each_named_leader_raises_the_leader_epoch_even_without_change() -> None:
    moved = PartitionChangeRecord(0, ORDERS, leader=HERE, isr=[HERE], leader_recovery_state=1)
    again = PartitionChangeRecord(0, ORDERS, leader=HERE)
    made, delta = fold([TopicRecord("orders", ORDERS), partition()], [moved, again])
    state = made.image.topics["orders"].partitions[0]
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (HERE, 2, 2)
    assert state.recovery is LeaderRecovery.RECOVERING
    assert len(list(delta)) == 1


def test_a_reassignment() -> None:
    begun = PartitionChangeRecord(0, ORDERS, replicas=[1, HERE, 3], adding_replicas=[3], removing_replicas=[1])
    made, _ = fold([TopicRecord("orders", ORDERS), partition()], [begun])
    state = made.image.topics["orders"].partitions[0]
    assert (state.target, state.origin, state.isr) == ((HERE, 3), (1, HERE), (1, HERE))
    ended = PartitionChangeRecord(
        0, ORDERS, replicas=[HERE, 3], isr=[HERE, 3], leader=HERE, adding_replicas=[], removing_replicas=[]
    )
    take(made, [ended])
    state = made.image.topics["orders"].partitions[0]
    assert (state.replicas, state.is_reassigned, state.leader_epoch) == ((HERE, 3), False, 1)


def test_directories_of_this_brokers_replicas() -> None:
    here, there = UUID(int=70), UUID(int=71)
    made, _ = fold([TopicRecord("orders", ORDERS), partition(directories=[there, here])])
    assert made.directories == {(ORDERS, 0): here}
    take(made, [PartitionChangeRecord(0, ORDERS, directories=[there, there])])
    assert made.directories == {(ORDERS, 0): there}
    take(made, [PartitionChangeRecord(0, ORDERS, replicas=[1], directories=[there])])
    assert made.directories == {}


def test_a_topic_that_is_made_again_has_another_id_and_no_old_settings() -> None:
    old = [TopicRecord("orders", ORDERS), ConfigRecord(2, "orders", "retention.ms", "1000"), partition()]
    new = [RemoveTopicRecord(ORDERS), TopicRecord("orders", OTHER), partition(OTHER)]
    made, delta = fold(old, new)
    assert [type(change) for change in delta] == [TopicDeleted, TopicCreated]
    assert made.image.topics["orders"].id == OTHER
    assert made.image.topic_by_id(ORDERS) is None
    assert made.image.settings(topic_resource("orders")) == {}
    assert made.image.partition_count == 1


def test_a_topic_that_comes_and_goes_in_one_batch_changes_nothing() -> None:
    made, delta = fold([TopicRecord("orders", ORDERS), partition(), RemoveTopicRecord(ORDERS), NoOpRecord()])
    assert list(delta) == []
    assert made.image == ClusterImage()


@pytest.mark.parametrize(
    "record",
    [
        partition(),
        PartitionChangeRecord(0, ORDERS, isr=[1]),
        RemoveTopicRecord(ORDERS),
        BrokerRegistrationChangeRecord(1, 5, fenced=-1),
    ],
)
def test_records_of_what_is_not_known_are_rejected(record: MetadataRecord) -> None:
    with pytest.raises(CorruptRecords, match="not known"):
        fold([record])


def test_settings_of_brokers() -> None:
    set_all, set_one = ConfigRecord(4, "", "log.retention.ms", "5"), ConfigRecord(4, "9", "log.retention.ms", "6")
    made, _ = fold([set_all, set_one, ConfigRecord(8, "1", "kafka", "INFO")])
    assert made.image.settings(broker_resource(None)) == {"log.retention.ms": "5"}
    assert made.image.settings(broker_resource(9)) == {"log.retention.ms": "6"}
    assert len(made.image.configs) == 2
    take(made, [ConfigRecord(4, "9", "log.retention.ms", None)])
    assert made.image.settings(broker_resource(9)) == {}


def test_subscriptions_to_metrics_of_clients() -> None:
    records = [ConfigRecord(16, "slow", "interval.ms", "7"), ConfigRecord(16, "gone", "interval.ms", "8")]
    made, _ = fold(records, [ConfigRecord(16, "gone", "interval.ms", None)])
    assert made.image.settings(client_metrics_resource("slow")) == {"interval.ms": "7"}
    assert made.image.settings(client_metrics_resource("gone")) == {}


def test_only_unfenced_brokers_are_in_the_image() -> None:
    made, _ = fold([broker(1, 10)])
    assert set(made.image.brokers) == set()
    assert made.brokers[1].is_fenced
    take(made, [BrokerRegistrationChangeRecord(1, 10, fenced=-1)])
    registration = made.image.brokers[1]
    assert (registration.epoch, registration.rack, registration.shutting_down) == (10, "r", False)
    assert {name: listener.protocol for name, listener in registration.listeners.items()} == {
        "PLAINTEXT": "PLAINTEXT",
        "SAFE": "SASL_SSL",
    }
    take(made, [BrokerRegistrationChangeRecord(1, 10, in_controlled_shutdown=1)])
    assert made.image.brokers[1].shutting_down
    take(made, [BrokerRegistrationChangeRecord(1, 10, fenced=1)])
    assert set(made.image.brokers) == set()
    take(made, [broker(1, 20, fenced=False), UnregisterBrokerRecord(1, 20)])
    assert (dict(made.image.brokers.items()), made.brokers) == ({}, {})


def nodes(entities: Entities, *records: MetadataRecord) -> dict[str, object]:
    for record in records:
        entities.apply(record)
    changed: list[ChangedNode] = list(entities.changed_nodes())
    return {node.path: None if node.data is None else json.loads(node.data) for node in changed}


def test_nodes_of_a_user_have_credentials_and_quotas() -> None:
    entities = Entities()
    credential = UserScramCredentialRecord("ann/b", 1, b"salt", b"stored", b"server", 4096)
    quota = ClientQuotaRecord([QuotaSubject("user", "ann/b")], "producer_byte_rate", 1048576.0)
    path = "/config/users/ann%2Fb"
    shown = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=4096"
    assert nodes(entities, credential, quota) == {
        path: {"version": 1, "config": {"SCRAM-SHA-256": shown, "producer_byte_rate": "1048576"}}
    }
    assert nodes(entities, RemoveUserScramCredentialRecord("ann/b", 1)) == {
        path: {"version": 1, "config": {"producer_byte_rate": "1048576"}}
    }
    quota.remove = True
    assert nodes(entities, quota) == {path: None}
    assert nodes(entities) == {}


def test_nodes_of_other_quotas() -> None:
    parts = [QuotaSubject("user", None), QuotaSubject("client-id", "app")]
    limit = ClientQuotaRecord(parts, "request_percentage", 12.5)
    address = ClientQuotaRecord([QuotaSubject("ip", None)], "connection_creation_rate", 3.0)
    unknown = ClientQuotaRecord([QuotaSubject("group", "g")], "request_percentage", 1.0)
    assert nodes(Entities(), limit, address, unknown) == {
        "/config/users/<default>/clients/app": {"version": 1, "config": {"request_percentage": "12.5"}},
        "/config/ips/<default>": {"version": 1, "config": {"connection_creation_rate": "3"}},
    }


def test_nodes_of_acls() -> None:
    entities = Entities()
    read = AccessControlEntryRecord(UUID(int=1), 2, "orders", 3, "User:ann", "*", 3, 3)
    write = AccessControlEntryRecord(UUID(int=2), 2, "orders", 3, "User:ann", "*", 4, 2)
    [(path, data)] = nodes(entities, read, write).items()
    assert path == "/kafka-acl/Topic/orders"
    assert data == {
        "version": 1,
        "acls": [
            {"principal": "User:ann", "permissionType": "Allow", "host": "*", "operation": "Read"},
            {"principal": "User:ann", "permissionType": "Deny", "host": "*", "operation": "Write"},
        ],
    }
    [(_, data)] = nodes(entities, RemoveAccessControlEntryRecord(UUID(int=1))).items()
    assert len(data["acls"]) == 1  # type: ignore[index]
    assert nodes(entities, RemoveAccessControlEntryRecord(UUID(int=2))) == {path: None}


def test_nodes_of_tokens_and_features() -> None:
    entities = Entities()
    token = DelegationTokenRecord("User:ann", "User:bob", ["User:cleo"], 1, 2, 3, "id")
    changed = nodes(entities, token, FeatureLevelRecord("group.version", 1), FeatureLevelRecord("share.version", 0))
    assert changed["/feature"]["features"] == {"group.version": 1}  # type: ignore[index]
    assert changed["/delegation_token/tokens/id"] == {
        "version": 3,
        "owner": "User%3Aann",
        "tokenRequester": "User%3Abob",
        "renewers": ["User%3Acleo"],
        "issueTimestamp": 1,
        "maxTimestamp": 2,
        "expiryTimestamp": 3,
        "tokenId": "id",
    }
    assert nodes(entities, RemoveDelegationTokenRecord("id")) == {"/delegation_token/tokens/id": None}


def test_a_large_batch_gives_way_between_its_portions() -> None:
    topics = [UUID(int=1000 + number) for number in range(30)]
    records: list[MetadataRecord] = []
    for topic in topics:
        records += [TopicRecord(f"topic-{topic.int}", topic), *(partition(topic, number) for number in range(100))]
    made = MetadataFold(HERE)
    edits = made.begin()
    for record in records:
        edits.apply(record)
    work, pauses = made.commit(edits), 0
    while advance(work):
        pauses += 1
    assert pauses >= 3
    assert len(made.image.topics) == 30
    assert made.image.partition_count == 3000
