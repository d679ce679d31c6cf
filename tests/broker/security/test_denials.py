"""Denials and their log, changes of ACLs, and requests that only brokers send."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pylogbroker.broker.apis import APIS
from pylogbroker.broker.requests import limits
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import guard
from pylogbroker.errors import ErrorCode, ProtocolViolation
from pylogbroker.long_loops import STEP_ITEMS, settled
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire import Request
from pylogbroker.wire.messages.alter_client_quotas import AlterClientQuotasRequest, QuotaAlteration
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pylogbroker.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pylogbroker.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from pylogbroker.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from pylogbroker.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pylogbroker.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pylogbroker.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from pylogbroker.wire.messages.describe_acls import DescribeAclsRequest
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest
from pylogbroker.wire.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from pylogbroker.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from pylogbroker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pylogbroker.wire.messages.list_config_resources import ListConfigResourcesRequest
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.messages.push_telemetry import PushTelemetryRequest
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest
from pylogbroker.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from pylogbroker.wire.messages.share_fetch import ShareFetchRequest
from pylogbroker.wire.messages.share_group_describe import ShareGroupDescribeRequest
from pylogbroker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from pylogbroker.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from pylogbroker.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from pylogbroker.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import Node, opened_node
from tests.broker.security import broker_requests, cases, test_share_state_access
from tests.broker.security.cases import batch
from tests.wire.kafka_apis import OWN_APIS

HOST = "10.0.0.7"
ANYBODY = "User:ANONYMOUS"
ALL, READ, WRITE, ALTER, DESCRIBE = 2, 3, 4, 7, 8
TOPIC, GROUP, CLUSTER = 2, 3, 4


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A broker whose ACLs clients at 10.0.0.1 may change."""
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:admin"}
    with opened_node((str(tmp_path),), settings) as opened:
        yield opened


def ask(node: Node, request: Request, principal: str = ANYBODY, version: int | None = None) -> Any:
    api = next(each for each in APIS if each.key == request.api_key).guarded()
    return node.ask(api.handle, request, version, HOST, principal)


def allow(node: Node, kind: int, name: str, operation: int, host: str = "*") -> None:
    request = CreateAclsRequest([AclCreation(kind, name, 3, ANYBODY, host, operation, 3)])
    assert [each.error_code for each in ask(node, request, "User:admin").results] == [0]


def is_denied(node: Node) -> bool:
    [group] = ask(node, DescribeGroupsRequest(["g"])).groups
    return bool(group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED)


def test_every_client_api_is_compared_with_kafka() -> None:
    compared = {
        each[0](cases.Setting(dict.fromkeys(cases.TOPICS, cases.UUID(int=1)), 1)).api_key
        for each in cases.REQUESTS.values()
    }
    of_sasl = {SaslHandshakeRequest.api_key, SaslAuthenticateRequest.api_key}  # they come before there is a principal
    between_brokers = {request.api_key for request, _ in broker_requests.REQUESTS}
    of_kafka_4 = {
        ConsumerGroupHeartbeatRequest.api_key,
        ConsumerGroupDescribeRequest.api_key,
        GetTelemetrySubscriptionsRequest.api_key,
        ListConfigResourcesRequest.api_key,
        PushTelemetryRequest.api_key,
        ShareFetchRequest.api_key,
        ShareGroupHeartbeatRequest.api_key,
        ShareGroupDescribeRequest.api_key,
        DescribeShareGroupOffsetsRequest.api_key,
        AlterShareGroupOffsetsRequest.api_key,
        DeleteShareGroupOffsetsRequest.api_key,
        ShareAcknowledgeRequest.api_key,
        StreamsGroupDescribeRequest.api_key,
        StreamsGroupHeartbeatRequest.api_key,
        *(request.api_key for request in test_share_state_access.REQUESTS),
    }
    others = between_brokers | of_sasl | of_kafka_4
    missing = [api.name for api in APIS if api.name not in OWN_APIS and api.key not in compared | others]
    assert not missing, f"{missing}: add requests to REQUESTS of {cases.__file__}, or the API to OWN_APIS"
    assert not others & compared


def test_a_list_of_acls_that_would_be_too_long(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESPONSE_BYTES_MAX", 8000)
    everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    for name in "abcd":
        allow(node, GROUP, name + "g" * 1600, READ)
    assert len(ask(node, everything, "User:admin").resources) == 4
    allow(node, GROUP, "e" + "g" * 1600, READ)
    found = ask(node, everything, "User:admin")
    assert (found.error_code, found.resources) == (ErrorCode.INVALID_REQUEST, [])
    assert "ask for less" in found.error_message


def test_a_verdict_lasts_until_acls_change(node: Node) -> None:
    assert is_denied(node)
    allow(node, GROUP, "g", READ)
    assert not is_denied(node)
    found = ask(node, DescribeAclsRequest(GROUP, "g", 2, None, None, 1, 1), "User:admin").resources
    assert [(each.resource_name, [acl.operation for acl in each.acls]) for each in found] == [("g", [READ])]
    deleted = ask(node, DeleteAclsRequest([DeleteAclsFilter(GROUP, "g", 3, None, None, 1, 1)]), "User:admin")
    assert [len(each.matching_acls) for each in deleted.filter_results] == [1]
    assert is_denied(node)


def test_one_connections_verdicts_follow_acls(node: Node) -> None:
    assert node.broker.authorizer is not None
    access = node.broker.authorizer.access(ANYBODY, HOST)
    for name in ("g", "g", "h"):
        assert not access.allows_on_group(AclOperation.READ, name)
    allow(node, GROUP, "g", READ, HOST)
    assert [access.allows_on_group(AclOperation.READ, name) for name in ("g", "g", "h")] == [True, True, False]


def produce(node: Node, *topics: str, transactional_id: str | None = None) -> list[int]:
    data = [TopicProduceData(topic, [PartitionProduceData(0, batch())]) for topic in topics]
    if transactional_id is not None:
        data = [TopicProduceData(topic, [PartitionProduceData(0, batch(cases.Setting({}, 1)))]) for topic in topics]
    answer = ask(node, ProduceRequest(transactional_id, 1, 1000, data), version=9)
    return [each.partition_responses[0].error_code for each in sorted(answer.responses, key=attrgetter("name"))]


def fetch(node: Node, topic: str, replica: int = -1) -> int:
    request = FetchRequest(replica_id=replica, topics=[FetchTopic(topic, partitions=[FetchPartition(0)])])
    [answered] = ask(node, request, version=12).responses
    return int(answered.partitions[0].error_code)


@pytest.fixture
def access(node: Node) -> Access:
    """Access of these tests' clients, kept as by a connection."""
    assert node.broker.authorizer is not None
    return node.broker.authorizer.access(ANYBODY, HOST)


def test_a_remembered_topic_is_checked_again_when_acls_change(node: Node, access: Access) -> None:
    node.create("t")
    assert (produce(node, "t"), fetch(node, "t")) == ([29], 29)
    for operation in (READ, WRITE):
        allow(node, TOPIC, "t", operation)
    for _ in range(2):
        assert (produce(node, "t"), fetch(node, "t")) == ([0], 0)
    assert access.writable_topics == access.readable_topics == {"t"}
    deny = AclCreation(TOPIC, "t", 3, ANYBODY, "*", ALL, 2)
    ask(node, CreateAclsRequest([deny]), "User:admin")
    assert (produce(node, "t"), fetch(node, "t")) == ([29], 29)


def test_a_remembered_topic_opens_nothing_else(node: Node, access: Access) -> None:
    for topic in "tu":
        node.create(topic)
    for operation in (READ, WRITE):
        allow(node, TOPIC, "t", operation)
    assert (produce(node, "t"), fetch(node, "t"), access.writable_topics) == ([0], 0, {"t"})
    assert produce(node, "t", "u") == [0, 29]
    assert produce(node, "t", transactional_id="x") == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert fetch(node, "t", replica=2) == 29
    request = ProduceRequest(None, 1, 1000, [TopicProduceData("t", [PartitionProduceData(0, batch())])])
    [denied] = ask(node, request, "User:bob", version=9).responses
    assert denied.partition_responses[0].error_code == 29


def test_a_remembered_topic_costs_no_rule(node: Node, access: Access) -> None:
    api = next(each for each in APIS if each.request is ProduceRequest)
    asked = list[Request]()

    async def rule(services: Any, context: RequestContext, request: Request) -> None:
        asked.append(request)
        assert await settled(api.access[0](services, context, request)) is None

    handle = guard(api.handle, [rule], api.shortcut)
    node.create("t")
    allow(node, TOPIC, "t", WRITE)
    request = ProduceRequest(None, 1, 1000, [TopicProduceData("t", [PartitionProduceData(0, batch())])])
    for _ in range(3):
        node.ask(handle, request, None, HOST)
    assert (len(asked), access.writable_topics) == (1, {"t"})


def test_acls_of_other_hosts_do_not_apply(node: Node) -> None:
    allow(node, GROUP, "g", READ, "10.0.0.8")
    assert is_denied(node)


@pytest.mark.parametrize(
    "creation",
    [
        AclCreation(1, "t", 3, ANYBODY, "*", READ, 3),
        AclCreation(99, "t", 3, ANYBODY, "*", READ, 3),
        AclCreation(TOPIC, "t", 2, ANYBODY, "*", READ, 3),
        AclCreation(TOPIC, "t", 3, "alice", "*", READ, 3),
        AclCreation(TOPIC, "t", 3, ANYBODY, "", READ, 3),
        AclCreation(TOPIC, "t", 3, ANYBODY, "*", 1, 3),
        AclCreation(TOPIC, "t", 3, ANYBODY, "*", READ, 1),
        AclCreation(TOPIC, "", 3, ANYBODY, "*", READ, 3),
        AclCreation(GROUP, "a/b", 3, ANYBODY, "*", READ, 3),
        AclCreation(CLUSTER, "cluster", 3, ANYBODY, "*", ALTER, 3),
    ],
)
def test_acls_that_mean_nothing(node: Node, creation: AclCreation) -> None:
    good = AclCreation(GROUP, "g", 3, ANYBODY, "*", READ, 3)
    results = ask(node, CreateAclsRequest([creation, good]), "User:admin").results
    assert [each.error_code for each in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


def test_filters_that_mean_nothing(node: Node) -> None:
    described = ask(node, DescribeAclsRequest(99, None, 1, None, None, 1, 1), "User:admin")
    deleted = ask(node, DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 99, 1)]), "User:admin")
    codes = [described.error_code, *(each.error_code for each in deleted.filter_results)]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2


def test_each_filter_reports_its_own_matches(node: Node) -> None:
    for name in ("a", "b"):
        allow(node, GROUP, name, READ)
    filters = [DeleteAclsFilter(GROUP, name, 3, None, None, 1, 1) for name in ("a", None, "a", "c")]
    deleted = ask(node, DeleteAclsRequest(filters), "User:admin").filter_results
    names = [sorted(acl.resource_name for acl in each.matching_acls) for each in deleted]
    assert names == [["a"], ["a", "b"], ["a"], []]


def test_no_acl_is_deleted_if_the_answer_would_be_too_long(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(node, GROUP, "g", READ)
    monkeypatch.setattr(limits, "RESPONSE_BYTES_MAX", 1000)
    filters = [DeleteAclsFilter(GROUP, "g", 3, None, None, 1, 1)] * 100
    answered = ask(node, DeleteAclsRequest(filters), "User:admin").filter_results
    assert {each.error_code for each in answered} == {ErrorCode.INVALID_REQUEST}
    assert not is_denied(node)


def test_a_denied_produce_without_answer_closes_the_connection(node: Node) -> None:
    node.create("t")
    data = TopicProduceData("t", [PartitionProduceData(0, batch())])
    with pytest.raises(ProtocolViolation, match="not authorized"):
        ask(node, ProduceRequest(None, 0, 1000, [data]))
    assert node.broker.partitions.find("t", 0).log.log_end_offset == 0


def test_a_request_without_identity_is_not_served(node: Node) -> None:
    api = next(each for each in node.broker.apis if each.name == "ListGroups")
    with pytest.raises(LookupError):
        api.handle(node.services_of(ListGroupsRequest), RequestContext(4), ListGroupsRequest())


def test_denials_are_logged_and_lists_are_not(node: Node) -> None:
    with logged_lines() as lines:
        ask(node, ListGroupsRequest())
    assert lines == []
    with logged_lines() as lines:
        ask(node, DescribeGroupsRequest(["g\nforged line"]))
    assert lines == [
        "Principal = User:ANONYMOUS is Denied operation = DESCRIBE from host = 10.0.0.7 "
        "on resource = Group:LITERAL:g\\nforged line"
    ]


def test_a_denied_produce_is_one_line(node: Node) -> None:
    """Denials also where the usual request, of one topic, is first looked at by itself."""
    with logged_lines() as lines:
        ask(node, ProduceRequest(None, 1, 1000, [TopicProduceData("t", [PartitionProduceData(0, batch())])]))
    assert ["operation = WRITE from host = 10.0.0.7 on resource = Topic:LITERAL:t" in line for line in lines] == [True]


def test_many_denials_are_few_lines(node: Node) -> None:
    with logged_lines() as lines:
        for number in range(100):
            ask(node, DescribeGroupsRequest([f"g{number}"]))
        node.clock.advance(60)
    assert len(lines) < 20
    assert lines[-1] == f"{100 - len(lines) + 1} more requests from 10.0.0.7 were denied within a minute"


@pytest.mark.parametrize(
    ("entry", "is_warned"), [(None, True), (AclOperation.CLUSTER_ACTION, False), (AclOperation.ALTER, True)]
)
def test_a_warning_says_that_brokers_may_not_be_brokers(
    node: Node, entry: AclOperation | None, is_warned: bool
) -> None:
    if entry is not None:
        allow(node, CLUSTER, "kafka-cluster", entry)
    assert node.broker.authorizer is not None
    with logged_lines() as lines:
        node.broker.authorizer.warn_of_brokers(ANYBODY, "10.0.0.9")
    assert ["User:ANONYMOUS, which may not act as a broker" in line for line in lines] == [True] * is_warned


PARTITIONS = range(10_000)
LED = [LeaderAndIsrPartitionState("t", partition_index=each) for each in PARTITIONS]
STOPPED = [StopReplicaPartitionState(each) for each in PARTITIONS]
MOVED = [ReassignablePartition(each) for each in PARTITIONS]


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (AlterPartitionReassignmentsRequest(0, [ReassignableTopic("t", MOVED)]), 0),
        (AlterClientQuotasRequest([QuotaAlteration() for _ in PARTITIONS]), 1),
        (AlterReplicaLogDirsRequest([AlterReplicaLogDir("", [AlterReplicaLogDirTopic("t", list(PARTITIONS))])]), 2),
        (AlterUserScramCredentialsRequest([ScramCredentialDeletion(str(each), 1) for each in PARTITIONS]), 0),
        (ElectLeadersRequest(0, [ElectLeadersTopic("t", list(PARTITIONS))]), 2),
        (LeaderAndIsrRequest(1, ungrouped_partition_states=LED), 1),
        (LeaderAndIsrRequest(1, topic_states=[LeaderAndIsrTopicState("t", UUID(int=1), LED)]), 7),
        (StopReplicaRequest(1, topics=[StopReplicaTopicV1("t", list(PARTITIONS))]), 1),
        (
            StopReplicaRequest(
                1, topic_states=[StopReplicaTopicState("t", list(map(StopReplicaPartitionState, PARTITIONS)))]
            ),
            4,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_long_requests_are_denied_in_steps(node: Node, request_: Request, version: int) -> None:
    api = next(each for each in APIS if each.key == request_.api_key).guarded()
    assert node.broker.authorizer is not None
    context = RequestContext(version, access=node.broker.authorizer.access(ANYBODY, HOST))
    assert (
        len(list(api.handle(node.services_of(request_), context, request_).__await__())) >= len(PARTITIONS) / STEP_ITEMS
    )
