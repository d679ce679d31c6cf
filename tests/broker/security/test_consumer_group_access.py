"""Access to consumer groups of KIP-848: the group, topics by name, topics by regular expression."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.broker.apis import APIS
from pylogbroker.errors import ErrorCode
from pylogbroker.wire import Request
from pylogbroker.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pylogbroker.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from tests.broker.nodes import Node, opened_node
from tests.broker.trees import now

CLIENT = "User:client"
ALLOW, LITERAL, READ, DESCRIBE = 3, 3, 3, 8
TOPIC, GROUP = 2, 3


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
    }
    with opened_node((str(tmp_path),), settings) as opened:
        opened.create("t")
        opened.create("tea")
        now(opened.broker.group_service.ensure_topic())
        yield opened


def ask(node: Node, request: Request, principal: str = CLIENT) -> Any:
    api = next(api for api in APIS if api.key == request.api_key).guarded()
    return node.ask(api.handle, request, None, "10.0.0.7", principal)


def allow(node: Node, kind: int, name: str, operation: int) -> None:
    request = CreateAclsRequest([AclCreation(kind, name, LITERAL, CLIENT, "*", operation, ALLOW)])
    assert [result.error_code for result in ask(node, request, "User:admin").results] == [0]


def join(topics: list[str] | None = None, expression: str | None = None) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest("g", "a", 0, None, None, 60_000, topics, expression, None, topic_partitions=[])


def test_member_needs_read_on_the_group_and_describe_on_its_topics(node: Node) -> None:
    assert ask(node, join(["t"])).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    allow(node, GROUP, "g", READ)
    assert ask(node, join(["t"])).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allow(node, TOPIC, "t", DESCRIBE)
    answer = ask(node, join(["t"]))
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 1)
    assert ask(node, join(["t", "tea"])).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_expression_matches_topics_that_the_client_may_describe(node: Node) -> None:
    allow(node, GROUP, "g", READ)
    allow(node, TOPIC, "tea", DESCRIBE)
    answer = ask(node, join(expression="t.*"))
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 1)
    described = ask(node, ConsumerGroupDescribeRequest(["g"]), "User:admin").groups[0]
    topics = described.members[0].assignment.topic_partitions
    assert [topic.topic_name for topic in topics] == ["tea"]


def test_description_needs_describe_on_the_group_and_all_of_its_topics(node: Node) -> None:
    assert ask(node, join(["t"]), "User:admin").error_code == ErrorCode.NONE
    request = ConsumerGroupDescribeRequest(["g"])
    assert ask(node, request).groups[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    allow(node, GROUP, "g", DESCRIBE)
    assert ask(node, request).groups[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allow(node, TOPIC, "t", DESCRIBE)
    described = ask(node, request).groups[0]
    assert (described.error_code, described.group_state, len(described.members)) == (ErrorCode.NONE, "Stable", 1)
