"""Requests for very many partitions do not keep the reactors of a cluster's members from other connections.

`tests/net/test_long_requests.py` asks a broker that is alone; here are the requests that only a member serves, and the
orders of a controller. Our controller's orders are short. Those of Apache's name all partitions of a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from uuid import UUID

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.wire import Request, response_codec
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pylogbroker.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from pylogbroker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pylogbroker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pylogbroker.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from pylogbroker.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.broker.newest_versions import newest
from tests.cluster.cluster import WAIT_SECONDS_MAX, Cluster
from tests.cluster.members import CALM, ClusterBroker, own
from tests.net.test_hostile_peers import Peer
from tests.net.test_long_requests import ALL, PARTITIONS, Client
from tests.support.broker_process import BrokerProcess
from tests.support.budget import Budget
from tests.support.reactor_stalls import watching
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
PREFERRED, UNCLEAN = 0, 1
TOPIC = "many"
NO_TOPIC = "none"
NO_BROKER = 7
LAST_SECONDS_MAX = 600.0
NEWEST: Final = {"api.versions.release": "4.4"}
"""Settings of brokers that offer the versions in which `newest` has requests sent."""


def process_of(member: ClusterBroker) -> BrokerProcess:
    assert isinstance(member, BrokerProcess)
    return member


def wait_until_led(member: BrokerProcess) -> None:
    """Create the topic, and wait until the member leads all partitions."""
    peer = Peer(member)
    peer.socket.settimeout(LAST_SECONDS_MAX)

    def ask(request: Request) -> Any:
        codec = response_codec(request.api_key, newest(request.api_key))
        return codec.decode(peer.ask(request, newest(request.api_key)), codec._header_size)

    def is_led() -> bool:
        [topic] = ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)).topics
        return [each.leader_id for each in topic.partitions] == [1] * PARTITIONS

    ask(CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)]))
    wait_until(is_led, LAST_SECONDS_MAX)


@pytest.fixture
def client(new_cluster: NewCluster, budget: Budget) -> Client:
    """The only member of a cluster, which is its controller, with a topic of many partitions."""
    cluster = new_cluster(own, settings={**CALM, **watching(budget), **NEWEST})
    wait_until(lambda: cluster.controller() == 1, WAIT_SECONDS_MAX)
    member = process_of(cluster.members[1])
    wait_until_led(member)
    return Client(member, budget)


def moved(topic: str, target: list[int] | None) -> AlterPartitionReassignmentsRequest:
    partitions = [ReassignablePartition(number, target) for number in ALL]
    return AlterPartitionReassignmentsRequest(60_000, [ReassignableTopic(topic, partitions)])


def errors(answer: Any) -> set[ErrorCode]:
    """Return the error codes of an answer about one topic; each partition has one."""
    [topic] = answer.responses
    assert len(topic.partitions) == PARTITIONS
    return {ErrorCode(each.error_code) for each in topic.partitions}


def elect(client: Client, kind: int, topics: list[ElectLeadersTopic] | None) -> set[ErrorCode]:
    results = client.ask(ElectLeadersRequest(kind, topics, 60_000)).replica_election_results
    return {ErrorCode(each.error_code) for topic in results for each in topic.partition_result}


def test_requests_to_the_controller_give_way(client: Client) -> None:
    client.check(lambda: ask_controller(client))


def ask_controller(client: Client) -> None:
    for kind in (PREFERRED, UNCLEAN):
        assert elect(client, kind, None) == set()
        assert elect(client, kind, [ElectLeadersTopic(TOPIC, list(ALL))]) == {ErrorCode.ELECTION_NOT_NEEDED}
        unknown = elect(client, kind, [ElectLeadersTopic(NO_TOPIC, list(ALL))])
        assert unknown == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    for topic in (TOPIC, NO_TOPIC):
        named = [ListPartitionReassignmentsTopics(topic, list(ALL))]
        assert client.ask(ListPartitionReassignmentsRequest(60_000, named)).topics == []
    assert client.ask(ListPartitionReassignmentsRequest(60_000, None)).topics == []
    for target in ([1], [NO_BROKER], None):
        assert errors(client.ask(moved(NO_TOPIC, target))) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert errors(client.ask(moved(TOPIC, [1]))) == {ErrorCode.NONE}
    assert errors(client.ask(moved(TOPIC, [NO_BROKER]))) == {ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert errors(client.ask(moved(TOPIC, None))) == {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}


def knows_all_led(client: Client) -> bool:
    """Return whether all partitions of the topic have a leader and two replicas in sync, in a member's metadata."""
    [topic] = client.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)).topics
    led = [each.partition_index for each in topic.partitions if each.leader_id > 0 and len(each.isr_nodes) == 2]
    return led == list(ALL)


def wait_until_deleted(member: BrokerProcess) -> None:
    """Wait until no directory of the topic is left."""
    wait_until(lambda: not list(member.data_dir.glob(f"{TOPIC}_*")), LAST_SECONDS_MAX)


def test_creation_and_deletion_give_way(new_cluster: NewCluster, budget: Budget) -> None:
    cluster = new_cluster(own, own, settings={**CALM, **watching(budget), **NEWEST})
    controller = cluster.wait_for_controller()
    members = {number: process_of(member) for number, member in cluster.members.items()}
    clients = {number: Client(member, budget) for number, member in members.items()}

    def create_and_delete() -> None:
        clients[controller].ask(CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 2)], timeout_ms=100_000))
        for client in clients.values():
            wait_until(partial(knows_all_led, client), LAST_SECONDS_MAX)
        clients[controller].ask(DeleteTopicsRequest(topics=[DeleteTopicState(TOPIC)], timeout_ms=100_000))
        wait_until(lambda: TOPIC not in cluster.tree.topics(), LAST_SECONDS_MAX)
        for member in members.values():
            wait_until_deleted(member)

    clients[1].check(lambda: clients[2].check(create_and_delete))


def orders(controller_epoch: int) -> Iterator[Request]:
    """Yield a controller's orders about one topic of many partitions, half of which a broker that is away leads."""
    topic_id, live = UUID(int=7), [UpdateMetadataBroker(1, endpoints=[UpdateMetadataEndpoint(1, "h", "PLAINTEXT", 0)])]
    epochs = {"controller_epoch": controller_epoch, "leader_epoch": 3}
    leaders = [(number, 1 + number % 2) for number in ALL]
    ordered = [
        LeaderAndIsrPartitionState(
            partition_index=number, leader=leader, isr=[1, 2], replicas=[1, 2], is_new=True, **epochs
        )
        for number, leader in leaders
    ]
    yield LeaderAndIsrRequest(
        2, controller_epoch=controller_epoch, topic_states=[LeaderAndIsrTopicState(TOPIC, topic_id, ordered)]
    )
    announced = [
        UpdateMetadataPartitionState(partition_index=number, leader=leader, isr=[1, 2], replicas=[1, 2], **epochs)
        for number, leader in leaders
    ]
    yield UpdateMetadataRequest(
        2,
        controller_epoch=controller_epoch,
        topic_states=[UpdateMetadataTopicState(TOPIC, topic_id, announced)],
        live_brokers=live,
    )
    stopped = [StopReplicaPartitionState(number, 3, True) for number in ALL]
    yield StopReplicaRequest(2, controller_epoch=controller_epoch, topic_states=[StopReplicaTopicState(TOPIC, stopped)])


def test_orders_for_many_partitions_give_way(new_cluster: NewCluster, budget: Budget) -> None:
    """Some as Apache's controller sends them; they end the present controller's, since their epoch is larger."""
    cluster = new_cluster(own, settings={**CALM, **watching(budget), **NEWEST})
    wait_until(lambda: cluster.controller() == 1, WAIT_SECONDS_MAX)
    member = process_of(cluster.members[1])
    client = Client(member, budget)

    def obey() -> None:
        lead_and_follow, update, stop = orders(controller_epoch=100)
        answer = client.ask(lead_and_follow)
        assert [each.error_code for topic in answer.topics for each in topic.partition_errors] == [0] * PARTITIONS
        for _ in range(2):
            assert client.ask(update).error_code == 0
        [topic] = client.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)).topics
        assert [each.isr_nodes for each in topic.partitions] == [[1, 2]] * PARTITIONS
        answer = client.ask(stop)
        assert [each.error_code for each in answer.partition_errors] == [0] * PARTITIONS
        wait_until_deleted(member)

    client.check(obey)
