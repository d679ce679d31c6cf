"""Access to groups of Kafka Streams: the group, the topics of its topology, and internal topics that are created."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.broker.apis import APIS
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.streams.states import StatusCode
from pylogbroker.wire import Request
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from pylogbroker.wire.messages.streams_group_heartbeat import HeartbeatTopology, StreamsGroupHeartbeatRequest
from pylogbroker.wire.streams_topology import StreamsSubtopology, StreamsTopicInfo
from tests.broker.nodes import Node, opened_node
from tests.broker.trees import now

ADMIN, CLIENT = "User:admin", "User:client"
ALLOW, LITERAL, PREFIXED, READ, CREATE, DESCRIBE = 3, 3, 4, 3, 5, 8
TOPIC, GROUP = 2, 3
NO_GROUP, NO_TOPIC = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
CHANGELOG = "g-counts-changelog"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": ADMIN,
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.assignment.interval.ms": "0",
    }
    with opened_node((str(tmp_path),), settings) as opened:
        opened.create("t")
        now(opened.broker.group_service.ensure_topic())
        yield opened


def ask(node: Node, request: Request, principal: str = CLIENT) -> Any:
    api = next(api for api in APIS if api.key == request.api_key).guarded()
    return node.ask(api.handle, request, None, "10.0.0.7", principal)


def allow(node: Node, kind: int, name: str, operation: int, pattern: int = LITERAL) -> None:
    request = CreateAclsRequest([AclCreation(kind, name, pattern, CLIENT, "*", operation, ALLOW)])
    assert [result.error_code for result in ask(node, request, ADMIN).results] == [0]


def joining(member_id: str = "a") -> StreamsGroupHeartbeatRequest:
    subtopology = StreamsSubtopology("0", ["t"], state_changelog_topics=[StreamsTopicInfo(CHANGELOG)])
    return StreamsGroupHeartbeatRequest(
        "g",
        member_id,
        0,
        rebalance_timeout_ms=60_000,
        topology=HeartbeatTopology(0, [subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id=member_id,
    )


def test_member_needs_read_on_the_group_and_describe_on_all_topics(node: Node) -> None:
    assert ask(node, joining()).error_code == NO_GROUP
    allow(node, GROUP, "g", READ)
    allow(node, TOPIC, "t", DESCRIBE)
    assert ask(node, joining()).error_code == NO_TOPIC
    allow(node, TOPIC, "g-", DESCRIBE, PREFIXED)
    assert ask(node, joining()).error_code == ErrorCode.NONE


def test_internal_topics_are_created_with_the_rights_of_the_member(node: Node) -> None:
    for kind, name, operation in ((GROUP, "g", READ), (TOPIC, "t", DESCRIBE), (TOPIC, CHANGELOG, DESCRIBE)):
        allow(node, kind, name, operation)
    answer = ask(node, joining())
    [status] = answer.status
    assert status.status_code == StatusCode.MISSING_INTERNAL_TOPICS
    assert f"Unauthorized to CREATE on topics {CHANGELOG}." in status.status_detail
    assert CHANGELOG not in node.broker.metadata.topics
    allow(node, TOPIC, CHANGELOG, CREATE)
    ask(node, StreamsGroupHeartbeatRequest("g", "a", answer.member_epoch))
    assert CHANGELOG in node.broker.metadata.topics
    assigned = ask(node, StreamsGroupHeartbeatRequest("g", "a", answer.member_epoch))
    assert [(task.subtopology_id, task.partitions) for task in assigned.active_tasks] == [("0", [0])]
    assert not assigned.status


def test_creation_that_fails_is_reported(node: Node) -> None:
    request = joining()
    assert request.topology is not None
    request.topology.subtopologies[0].state_changelog_topics[0].replication_factor = 3
    answer = ask(node, request, ADMIN)
    [status] = ask(node, StreamsGroupHeartbeatRequest("g", "a", answer.member_epoch), ADMIN).status
    assert f"creation failed: topic {CHANGELOG}:" in status.status_detail


def test_description_needs_describe_on_the_group_and_all_topics(node: Node) -> None:
    assert ask(node, joining(), ADMIN).error_code == ErrorCode.NONE
    request = StreamsGroupDescribeRequest(["g"])
    assert ask(node, request).groups[0].error_code == NO_GROUP
    allow(node, GROUP, "g", DESCRIBE)
    assert ask(node, request).groups[0].error_code == NO_TOPIC
    allow(node, TOPIC, "t", DESCRIBE)
    allow(node, TOPIC, CHANGELOG, DESCRIBE)
    described = ask(node, request).groups[0]
    assert (described.error_code, len(described.members)) == (ErrorCode.NONE, 1)
