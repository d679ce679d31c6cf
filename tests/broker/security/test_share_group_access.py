"""Access to share groups: the group, and the topics that a request names or the group reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.broker.apis import APIS
from pylogbroker.errors import ErrorCode
from pylogbroker.wire import Request
from pylogbroker.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from pylogbroker.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from pylogbroker.wire.messages.share_group_describe import ShareGroupDescribeRequest
from pylogbroker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.nodes import Node, opened_node
from tests.broker.trees import now

ADMIN, CLIENT = "User:admin", "User:client"
ALLOW, LITERAL, READ, DELETE, DESCRIBE = 3, 3, 3, 6, 8
TOPIC, GROUP = 2, 3
NO_GROUP, NO_TOPIC = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": ADMIN,
        "share.coordinator.state.topic.num.partitions": "1",
    }
    with opened_node((str(tmp_path),), settings) as opened:
        opened.create("t")
        opened.create("tea")
        now(opened.broker.group_service.ensure_topic())
        now(opened.broker.share_states.ensure_topic())
        yield opened


def ask(node: Node, request: Request, principal: str = CLIENT) -> Any:
    api = next(api for api in APIS if api.key == request.api_key).guarded()
    return node.ask(api.handle, request, None, "10.0.0.7", principal)


def allow(node: Node, kind: int, name: str, operation: int) -> None:
    request = CreateAclsRequest([AclCreation(kind, name, LITERAL, CLIENT, "*", operation, ALLOW)])
    assert [result.error_code for result in ask(node, request, ADMIN).results] == [0]


def join(*topics: str) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest("g", "a", 0, None, list(topics))


def leave(node: Node) -> None:
    assert ask(node, ShareGroupHeartbeatRequest("g", "a", -1), ADMIN).error_code == ErrorCode.NONE


def test_member_needs_read_on_the_group_and_describe_on_its_topics(node: Node) -> None:
    assert ask(node, join("t")).error_code == NO_GROUP
    allow(node, GROUP, "g", READ)
    assert ask(node, join("t")).error_code == NO_TOPIC
    allow(node, TOPIC, "t", DESCRIBE)
    answer = ask(node, join("t"))
    assert (answer.error_code, len(answer.assignment.topic_partitions)) == (ErrorCode.NONE, 1)
    assert ask(node, join("t", "tea")).error_code == NO_TOPIC


def test_description_needs_describe_on_the_group_and_all_of_its_topics(node: Node) -> None:
    assert ask(node, join("t"), ADMIN).error_code == ErrorCode.NONE
    request = ShareGroupDescribeRequest(["g"])
    assert ask(node, request).groups[0].error_code == NO_GROUP
    allow(node, GROUP, "g", DESCRIBE)
    assert ask(node, request).groups[0].error_code == NO_TOPIC
    allow(node, TOPIC, "t", DESCRIBE)
    described = ask(node, request).groups[0]
    assert (described.error_code, described.group_state, len(described.members)) == (ErrorCode.NONE, "Stable", 1)


def alter(start: int = 5) -> AlterShareGroupOffsetsRequest:
    partitions = [AlterShareGroupOffsetsRequestPartition(0, start)]
    topics = [AlterShareGroupOffsetsRequestTopic(name, partitions) for name in ("t", "tea")]
    return AlterShareGroupOffsetsRequest("g", topics)


def errors(responses: list[Any]) -> dict[str, int]:
    return {topic.topic_name: topic.partitions[0].error_code for topic in responses}


def test_offsets_are_set_with_read_on_group_and_topic(node: Node) -> None:
    assert ask(node, alter()).error_code == NO_GROUP
    allow(node, GROUP, "g", READ)
    assert errors(ask(node, alter()).responses) == {"t": NO_TOPIC, "tea": NO_TOPIC}
    allow(node, TOPIC, "t", READ)
    assert errors(ask(node, alter()).responses) == {"t": ErrorCode.NONE, "tea": NO_TOPIC}
    negative = ask(node, alter(-1), ADMIN).responses[0].partitions[0]
    assert (negative.error_code, negative.error_message[:28]) == (
        ErrorCode.INVALID_REQUEST,
        "The start offset is negative",
    )


def test_offsets_are_described_of_topics_that_the_client_may_describe(node: Node) -> None:
    ask(node, alter(), ADMIN)
    everything = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", None)])
    assert ask(node, everything).groups[0].error_code == NO_GROUP
    allow(node, GROUP, "g", DESCRIBE)
    assert ask(node, everything).groups[0].topics == []
    allow(node, TOPIC, "t", DESCRIBE)
    [topic] = ask(node, everything).groups[0].topics
    assert (topic.topic_name, topic.partitions[0].start_offset, topic.partitions[0].lag) == ("t", 5, 0)
    named = [DescribeShareGroupOffsetsRequestTopic(name, [0, 9]) for name in ("t", "tea", "none")]
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", named)])
    answers = ask(node, request).groups[0].topics
    assert errors(answers) == {"t": ErrorCode.NONE, "tea": NO_TOPIC, "none": NO_TOPIC}
    assert [partition.start_offset for partition in answers[0].partitions] == [5, -1]
    answers = ask(node, request, ADMIN).groups[0].topics
    assert errors(answers)["none"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_are_deleted_with_delete_on_the_group_and_read_on_the_topic(node: Node) -> None:
    ask(node, alter(), ADMIN)
    topics = [DeleteShareGroupOffsetsRequestTopic(name) for name in ("t", "tea")]
    request = DeleteShareGroupOffsetsRequest("g", topics)
    assert ask(node, request).error_code == NO_GROUP
    allow(node, GROUP, "g", DELETE)
    assert {topic.error_code for topic in ask(node, request).responses} == {NO_TOPIC}
    allow(node, TOPIC, "t", READ)
    answers = {topic.topic_name: topic.error_code for topic in ask(node, request).responses}
    assert answers == {"t": ErrorCode.NONE, "tea": NO_TOPIC}
