"""Faults of the cluster around a broker: versions of older releases, other leaders and coordinators, old metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pylogbroker.errors import ErrorCode
from pylogbroker.testing import Broker
from pylogbroker.wire.errors import UnsupportedVersion
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.testing.faults.raw import RawClient


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    """A broker for all tests of the module."""
    with Broker(broker_id=0, auto_create_topics_enable=False) as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Iterator[Broker]:
    """The broker, without faults before and after."""
    yield shared
    shared.faults.clear()


@pytest.fixture
def raw(broker: Broker) -> Iterator[RawClient]:
    """A connection that sends requests by hand."""
    with RawClient(broker.bootstrap) as client:
        yield client


@pytest.fixture
def topic(raw: RawClient, request: pytest.FixtureRequest) -> str:
    """A new topic."""
    name = str(request.node.name)
    raw.create_topic(name)
    return name


def metadata(client: RawClient, *topics: str) -> Any:
    """Metadata of topics."""
    return client.ask(MetadataRequest([MetadataRequestTopic(name=name) for name in topics]))


def coordinator(client: RawClient, group: str) -> Any:
    """The coordinator of a group."""
    return client.ask(FindCoordinatorRequest(coordinator_keys=[group])).coordinators[0]


def other(broker: Broker, found: Any, node: int) -> str:
    """Address of another broker of a metadata response."""
    (port,) = [each.port for each in found.brokers if each.node_id == node]
    return f"127.0.0.1:{port}"


def test_versions_of_a_release(broker: Broker, raw: RawClient, topic: str) -> None:
    raw.produce(topic)
    broker.faults.cap_versions("2.8", Fetch=(4, 11), EndTxn=None)
    answer = raw.ask(ApiVersionsRequest(), 0)
    offered = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert (offered[0], offered[1], 26 in offered, 65 in offered) == ((0, 9), (4, 11), False, False)
    newer = raw.ask(ApiVersionsRequest("x", "1"), 4)
    assert newer.error_code == ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(ConnectionError):
        raw.produce(topic)


def test_a_feature_is_off_without_the_versions_that_it_needs(broker: Broker) -> None:
    for caps, level in (({}, 2), ({"Produce": 11}, None), ({"EndTxn": 4}, None), ({"Produce": 12}, 2)):
        broker.faults.cap_versions(None, **caps)
        with RawClient(broker.bootstrap) as client:
            answer = client.ask(ApiVersionsRequest("x", "1"), 4)
        levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        assert (levels.get("transaction.version"), levels["metadata.version"]) == (level, 33)
        assert ("transaction.version" in [feature.name for feature in answer.supported_features]) is bool(level)


def test_librdkafka_works_with_an_older_release(broker: Broker, topic: str) -> None:
    broker.faults.cap_versions("0.11")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, "x")
    assert producer.flush(120) == 0
    (seen,) = broker.faults.requests.of("Produce")
    assert seen.version == 3


def test_clients_of_an_older_release_connect_again(broker: Broker, topic: str) -> None:
    broker.faults.cap_versions("2.5")
    broker.faults.network.reset()
    assert broker.produce(topic, "x") == [0]
    with pytest.raises(UnsupportedVersion):
        _ = broker.open_transactions
    kept = broker.inventory()
    assert (topic in kept.topics, kept.open_transactions) == (True, [])
    broker.faults.cap_versions()
    assert broker.open_transactions == []


def test_a_leader_moves(broker: Broker, raw: RawClient, topic: str) -> None:
    raw.produce(topic)
    before = metadata(raw, topic).topics[0].partitions[0]
    broker.faults.cluster.move_leader(topic, to=5)
    found = metadata(raw, topic)
    after = found.topics[0].partitions[0]
    assert (before.leader_id, after.leader_id, after.leader_epoch - before.leader_epoch) == (0, 5, 1)
    wrong = raw.produce(topic)
    assert (wrong.error_code, wrong.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5)
    with RawClient(other(broker, found, 5)) as fifth:
        assert fifth.produce(topic).base_offset == 1
    broker.faults.cluster.move_leader(topic, to=0)
    assert raw.produce(topic).base_offset == 2
    with RawClient(other(broker, found, 5)) as fifth:
        assert fifth.produce(topic).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_librdkafka_follows_a_leader(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    producer.produce(topic, "0")
    assert producer.flush(120) == 0
    broker.faults.cluster.move_leader(topic, to=3)
    producer.produce(topic, "1")
    assert producer.flush(120) == 0
    assert {seen.broker for seen in broker.faults.requests.of("Produce")} == {0, 3}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [consumer.consume(1, 120)[0].value() for _ in range(2)] == [b"0", b"1"]
    broker.faults.cluster.move_leader(topic, to=0)
    producer.produce(topic, "2")
    assert producer.flush(120) == 0
    assert [each.value() for each in consumer.consume(1, 120)] == [b"2"]
    consumer.close()


def test_a_partition_without_leader(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.cluster.remove_leader(topic)
    partition = metadata(raw, topic).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert raw.produce(topic).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.faults.cluster.move_leader(topic, to=0)
    assert raw.produce(topic).error_code == 0


def test_a_coordinator_moves(broker: Broker, raw: RawClient) -> None:
    assert coordinator(raw, "g").node_id == 0
    broker.faults.cluster.move_coordinator(group="g", to=4)
    found = coordinator(raw, "g")
    assert (found.node_id, coordinator(raw, "h").node_id) == (4, 0)
    assert raw.heartbeat("g").error_code == ErrorCode.NOT_COORDINATOR
    with RawClient(f"{found.host}:{found.port}") as fourth:
        assert fourth.heartbeat("g").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    broker.faults.cluster.move_coordinator(group="g", to=-1)
    assert coordinator(raw, "g").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_coordinator_that_was_removed(broker: Broker, raw: RawClient) -> None:
    broker.faults.cluster.move_coordinator(group="g", to=5)
    broker.faults.cluster.remove_broker(5)
    assert coordinator(raw, "g").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator(raw, "h").node_id == 0


def test_an_unknown_topic_at_another_brokers_port(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.cluster.add_broker(6)
    with RawClient(other(broker, metadata(raw, topic), 6)) as sixth:
        assert sixth.produce("missing").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        codes = {name: each.error_code for name, each in sixth.produce_to(topic, "missing").items()}
    assert codes == {topic: ErrorCode.NOT_LEADER_OR_FOLLOWER, "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_an_unknown_partition(broker: Broker, topic: str) -> None:
    with pytest.raises(ValueError, match=f"topic {topic} has no partition 9"):
        broker.faults.cluster.move_leader(topic, 9, to=2)


def test_another_topic_of_the_name_has_its_own_leader(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.cluster.move_leader(topic, to=2)
    assert metadata(raw, topic).topics[0].partitions[0].leader_id == 2
    broker.delete_topic(topic)
    broker.create_topic(topic)
    assert metadata(raw, topic).topics[0].partitions[0].leader_id == 0
    assert raw.produce(topic).error_code == 0


def test_described_partitions_have_moved_and_lag(broker: Broker, raw: RawClient, topic: str) -> None:
    def leaders() -> list[int]:
        request = DescribeTopicPartitionsRequest([TopicRequest(topic)])
        return [each.leader_id for each in raw.ask(request, 0).topics[0].partitions]

    broker.faults.cluster.move_leader(topic, to=2)
    assert leaders() == [2]
    broker.faults.cluster.lag_metadata()
    broker.faults.cluster.move_leader(topic, to=3)
    raw.create_topic("made-later")
    assert leaders() == [2]
    request = DescribeTopicPartitionsRequest([TopicRequest("made-later")])
    assert raw.ask(request, 0).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.faults.cluster.update_metadata()
    assert leaders() == [3]


def test_metadata_lags(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.cluster.lag_metadata()
    raw.create_topic("later")
    broker.faults.cluster.move_leader(topic, to=2)
    shown, later = metadata(raw, topic, "later").topics
    assert (shown.partitions[0].leader_id, later.error_code) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert raw.produce("later").error_code == 0
    broker.faults.cluster.update_metadata()
    shown, later = metadata(raw, topic, "later").topics
    assert (shown.partitions[0].leader_id, later.error_code) == (2, 0)


def test_a_broker_is_removed(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.cluster.add_broker(8)
    found = metadata(raw, topic)
    assert [each.node_id for each in found.brokers] == [0, 8]
    with RawClient(other(broker, found, 8)) as eighth:
        assert eighth.produce(topic).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.faults.cluster.remove_broker(8)
        with pytest.raises(ConnectionError):
            eighth.produce(topic)
    assert [each.node_id for each in metadata(raw, topic).brokers] == [0]
    with pytest.raises(ConnectionRefusedError), RawClient(other(broker, found, 8)):
        pass
