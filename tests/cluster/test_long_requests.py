"""Requests for very many partitions do not keep the reactor of a cluster's controller from other connections.

`tests/net/test_long_requests.py` asks a broker that is alone; here are the requests that only a member serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.wire import Request, response_codec
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from pylogbroker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.cluster.cluster import WAIT_SECONDS_MAX, Cluster
from tests.cluster.members import own
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


def wait_until_led(member: BrokerProcess) -> None:
    """Create the topic, and wait until the member leads all partitions."""
    peer = Peer(member)
    peer.socket.settimeout(WAIT_SECONDS_MAX)

    def ask(request: Request) -> Any:
        codec = response_codec(request.api_key, request.versions.last)
        return codec.decode(peer.ask(request, request.versions.last), codec._header_size)

    def is_led() -> bool:
        [topic] = ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)).topics
        return [each.leader_id for each in topic.partitions] == [1] * PARTITIONS

    ask(CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)]))
    wait_until(is_led, WAIT_SECONDS_MAX)


@pytest.fixture
def client(new_cluster: NewCluster, budget: Budget) -> Client:
    """The only member of a cluster, which is its controller, with a topic of many partitions."""
    cluster = new_cluster(own, settings=dict(watching(budget)))
    wait_until(lambda: cluster.controller() == 1, WAIT_SECONDS_MAX)
    member = cluster.members[1]
    assert isinstance(member, BrokerProcess)
    wait_until_led(member)
    return Client(member, budget, since=len(member.process.lines))


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
