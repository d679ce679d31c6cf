"""APIs of the controller: what their handlers ask of it, and what they answer, in each version."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from twisted.internet.task import Clock

from pylogbroker.broker.apis import (
    allocate_producer_ids,
    alter_partition,
    alter_partition_reassignments,
    controlled_shutdown,
    elect_leaders,
    list_partition_reassignments,
    update_features,
)
from pylogbroker.broker.membership.control import ClusterControl
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import LeaderRecovery
from pylogbroker.wire import SUPPORTED, Request, codec
from pylogbroker.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from pylogbroker.wire.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopicData,
)
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pylogbroker.wire.messages.controlled_shutdown import ControlledShutdownRequest
from pylogbroker.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from pylogbroker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pylogbroker.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.membership.harness import DrivenCluster
from tests.broker.newest_versions import newest
from tests.broker.trees import now, opened_tree


@attrs.frozen
class Member:
    cluster_control: ClusterControl
    features: Any = attrs.field(factory=lambda: SimpleNamespace(is_on=False))
    runtime: Any = attrs.field(factory=lambda: SimpleNamespace(slices=Slices(Clock(), inf)))

    def ask(self, handle: Callable[..., Any], request: Request, version: int | None = None) -> Any:
        """Return the answer; both go through the codecs of the version, by default the newest."""
        request_type, response_type = SUPPORTED[request.api_key]
        version = newest(request.api_key) if version is None else version
        sent = codec(request_type, version).decode(codec(request_type, version).encode(request))
        answer = handle(self, RequestContext(version), sent)
        answer = answer if isinstance(answer, response_type) else now(answer)
        return codec(response_type, version).decode(codec(response_type, version).encode(answer))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DrivenCluster]:
    with opened_tree(str(tmp_path)) as tree:
        cluster = DrivenCluster(tree)
        cluster.start(1, 2)
        cluster.driver.start()
        yield cluster
        cluster.driver.stop()


@pytest.fixture
def member(cluster: DrivenCluster) -> Member:
    return Member(cluster.driver)


def isr_request(cluster: DrivenCluster, isr: list[int], *, recovery: int = 0, version: int = 3) -> Request:
    state, topic = cluster.state("t", 0), cluster.driver.image.topics["t"]
    data = AlterPartitionData(
        0,
        state.leader_epoch,
        isr if version < 3 else [],
        [AlterPartitionBrokerState(broker) for broker in isr] if version >= 3 else [],
        recovery,
        state.partition_epoch,
    )
    topics = [AlterPartitionTopicData(topic.name, topic.id, [data])]
    return AlterPartitionRequest(state.leader, cluster.brokers[state.leader].epoch, topics)


@pytest.mark.parametrize("version", range(4))
def test_alter_partition(cluster: DrivenCluster, member: Member, version: int) -> None:
    cluster.create("t", [1, 2])
    answer = member.ask(alter_partition.handle, isr_request(cluster, [1], version=version), version)
    [topic] = answer.topics
    [partition] = topic.partitions
    topic_id = cluster.driver.image.topics["t"].id
    assert (topic.topic_name, topic.topic_id) == (("t", uuid.UUID(int=0)) if version < 2 else ("", topic_id))
    assert (answer.error_code, partition.error_code) == (0, 0)
    found = (partition.leader_id, partition.leader_epoch, partition.isr, partition.partition_epoch)
    assert found == (1, 0, [1], 1)
    assert cluster.state("t", 0).isr == (1,)
    now(cluster.driver.shut_down_broker(2, cluster.brokers[2].epoch))
    again = member.ask(alter_partition.handle, isr_request(cluster, [1, 2], version=version), version)
    expected = ErrorCode.OPERATION_NOT_ATTEMPTED if version < 2 else ErrorCode.INELIGIBLE_REPLICA
    assert again.topics[0].partitions[0].error_code == expected


def test_alter_partition_compares_the_epoch_of_a_new_member(cluster: DrivenCluster, member: Member) -> None:
    """KIP-903: broker 2 has restarted since the leader saw that it is in sync."""
    cluster.create("t", [1, 2])
    member.ask(alter_partition.handle, isr_request(cluster, [1]))
    epoch = cluster.brokers[2].epoch
    for sent, code in ((epoch - 1, ErrorCode.INELIGIBLE_REPLICA), (epoch, ErrorCode.NONE)):
        request: Any = isr_request(cluster, [1, 2])
        request.topics[0].partitions[0].new_isr_with_epochs[1].broker_epoch = sent
        answer = member.ask(alter_partition.handle, request)
        assert answer.topics[0].partitions[0].error_code == code


def test_alter_partition_of_unknown_topics(cluster: DrivenCluster, member: Member) -> None:
    epoch = cluster.brokers[1].epoch
    topics = [AlterPartitionTopicData("u", uuid.UUID(int=5), [AlterPartitionData(3)])]
    request = AlterPartitionRequest(1, epoch, topics)
    for version, code in ((3, ErrorCode.UNKNOWN_TOPIC_ID), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        [topic] = member.ask(alter_partition.handle, request, version).topics
        assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(3, code)]


def test_alter_partition_of_the_wrong_broker(cluster: DrivenCluster, member: Member) -> None:
    stale = member.ask(alter_partition.handle, AlterPartitionRequest(1, 0, []))
    assert (stale.error_code, stale.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_alter_partition_ends_a_recovery(cluster: DrivenCluster, member: Member) -> None:
    cluster.create("t", [1, 2])
    cluster.end(2)
    cluster.end(1)
    cluster.start(2)
    answer = member.ask(elect_leaders.handle, ElectLeadersRequest(1, [ElectLeadersTopic("t", [0])]))
    assert answer.replica_election_results[0].partition_result[0].error_code == 0
    assert cluster.state("t", 0).recovery is LeaderRecovery.RECOVERING
    bad = member.ask(alter_partition.handle, isr_request(cluster, [2], recovery=7))
    assert bad.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    done = member.ask(alter_partition.handle, isr_request(cluster, [2]))
    assert (done.topics[0].partitions[0].error_code, done.topics[0].partitions[0].leader_recovery_state) == (0, 0)
    assert cluster.state("t", 0).recovery is LeaderRecovery.RECOVERED


def test_allocate_producer_ids(cluster: DrivenCluster, member: Member) -> None:
    for start in (0, 1000):
        answer = member.ask(allocate_producer_ids.handle, AllocateProducerIdsRequest(1, cluster.brokers[1].epoch))
        assert (answer.error_code, answer.producer_id_start, answer.producer_id_len) == (0, start, 1000)
    stale = member.ask(allocate_producer_ids.handle, AllocateProducerIdsRequest(1, 0))
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("version", range(4))
def test_controlled_shutdown(cluster: DrivenCluster, member: Member, version: int) -> None:
    cluster.create("t", [1, 2])
    cluster.create("u", [1])
    request = ControlledShutdownRequest(1, cluster.brokers[1].epoch if version >= 2 else -1)
    answer = member.ask(controlled_shutdown.handle, request, version)
    assert (answer.error_code, answer.remaining_partitions) == (0, [])
    assert cluster.state("t", 0).leader == 2
    last = member.ask(controlled_shutdown.handle, ControlledShutdownRequest(2, -1), version)
    assert (last.error_code, last.remaining_partitions) == (0, [])
    assert cluster.state("t", 0).leader == 2
    unknown = member.ask(controlled_shutdown.handle, ControlledShutdownRequest(9, -1), version)
    assert unknown.error_code == ErrorCode.BROKER_NOT_AVAILABLE


def test_elect_leaders(cluster: DrivenCluster, member: Member) -> None:
    cluster.create("t", [1, 2], [2, 1])
    wanted = [ElectLeadersTopic("t", [0, 1]), ElectLeadersTopic("u", [0])]
    answer = member.ask(elect_leaders.handle, ElectLeadersRequest(0, wanted))
    results = [
        (topic.topic, each.partition_id, each.error_code, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    ]
    unneeded, unknown = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(results) == [
        ("t", 0, unneeded, unneeded.meaning),
        ("t", 1, unneeded, unneeded.meaning),
        ("u", 0, unknown, unknown.meaning),
    ]
    assert member.ask(elect_leaders.handle, ElectLeadersRequest(0, None)).replica_election_results == []
    cluster.end(1)
    cluster.start(1)
    failed = member.ask(elect_leaders.handle, ElectLeadersRequest(0, None))
    [topic] = failed.replica_election_results
    [partition] = topic.partition_result
    assert (topic.topic, partition.partition_id) == ("t", 0)
    assert partition.error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_elect_very_many_leaders(member: Member) -> None:
    partitions = list(range(1201))
    [topic] = member.ask(
        elect_leaders.handle, ElectLeadersRequest(0, [ElectLeadersTopic("u", partitions)])
    ).replica_election_results
    results = [(each.partition_id, each.error_code) for each in topic.partition_result]
    assert results == [(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for number in partitions]
    bad = member.ask(elect_leaders.handle, ElectLeadersRequest(7, None))
    assert bad.error_code == ErrorCode.INVALID_REQUEST


def test_reassignments(cluster: DrivenCluster, member: Member) -> None:
    cluster.create("t", [1], [2])
    wanted = [
        ReassignableTopic("t", [ReassignablePartition(0, [2]), ReassignablePartition(1, None)]),
        ReassignableTopic("u", [ReassignablePartition(0, [1])]),
    ]
    answer = member.ask(alter_partition_reassignments.handle, AlterPartitionReassignmentsRequest(topics=wanted))
    assert [
        (topic.name, each.partition_index, each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
    ] == [
        ("t", 0, 0, None),
        ("t", 1, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being reassigned"),
        ("u", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic has no such partition"),
    ]
    for topics in (None, [ListPartitionReassignmentsTopics("t", [0, 1])]):
        listed = member.ask(list_partition_reassignments.handle, ListPartitionReassignmentsRequest(topics=topics))
        [topic] = listed.topics
        [partition] = topic.partitions
        assert (topic.name, partition.partition_index) == ("t", 0)
        assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ([2, 1], [2], [1])
    others = ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics("t", [1])])
    assert member.ask(list_partition_reassignments.handle, others).topics == []
    cancelled = [ReassignableTopic("t", [ReassignablePartition(0, None)])]
    member.ask(alter_partition_reassignments.handle, AlterPartitionReassignmentsRequest(topics=cancelled))
    state = cluster.state("t", 0)
    assert (state.replicas, state.isr, state.adding, state.removing) == ((1,), (1,), (), ())


UNSUPPORTED = "Could not apply finalized feature update because the provided feature is not supported."
MISSING = "Can not delete non-existing finalized feature."


@pytest.mark.parametrize(
    ("version", "update", "message"),
    [
        (1, FeatureUpdateKey("", 1), "Feature name can not be empty."),
        (1, FeatureUpdateKey("f", 1, upgrade_type=0), "Received unknown upgrade type."),
        (1, FeatureUpdateKey("f", 1, upgrade_type=3), UNSUPPORTED),
        (1, FeatureUpdateKey("f", 0, upgrade_type=2), MISSING),
        (1, FeatureUpdateKey("f", 0, upgrade_type=1), "Can not provide maxVersionLevel: 0 less than 1"),
        (0, FeatureUpdateKey("f", 1), UNSUPPORTED),
        (0, FeatureUpdateKey("f", 0, allow_downgrade=True), MISSING),
        (0, FeatureUpdateKey("f", 0), "Can not provide maxVersionLevel: 0 less than 1"),
    ],
)
def test_there_are_no_features(member: Member, version: int, update: FeatureUpdateKey, message: str) -> None:
    """Two of the messages are in the tests of kafka-features."""
    answer = member.ask(update_features.handle, UpdateFeaturesRequest(feature_updates=[update]), version)
    [result] = answer.results
    assert (answer.error_code, result.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
    assert result.error_message.startswith(message)


def test_no_feature_is_updated(member: Member) -> None:
    answer = member.ask(update_features.handle, UpdateFeaturesRequest())
    assert (answer.error_code, answer.results) == (ErrorCode.NONE, [])


def test_another_broker_is_the_controller(cluster: DrivenCluster, member: Member) -> None:
    cluster.driver.stop()
    code = ErrorCode.NOT_CONTROLLER
    requests: list[tuple[Callable[..., Any], Request]] = [
        (alter_partition.handle, AlterPartitionRequest(1, 1, [])),
        (allocate_producer_ids.handle, AllocateProducerIdsRequest(1, 1)),
        (controlled_shutdown.handle, ControlledShutdownRequest(1, 1)),
        (elect_leaders.handle, ElectLeadersRequest(0, None)),
        (alter_partition_reassignments.handle, AlterPartitionReassignmentsRequest()),
        (list_partition_reassignments.handle, ListPartitionReassignmentsRequest()),
        (update_features.handle, UpdateFeaturesRequest()),
    ]
    for handle, request in requests:
        assert member.ask(handle, request).error_code == code, handle
    named = member.ask(elect_leaders.handle, ElectLeadersRequest(0, [ElectLeadersTopic("t", [3])]))
    [result] = named.replica_election_results[0].partition_result
    assert (named.error_code, result.partition_id, result.error_code) == (0, 3, code)
