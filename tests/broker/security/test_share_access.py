"""Access to share groups: READ on the group, and on each topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.broker.apis import APIS
from pylogbroker.errors import ErrorCode
from pylogbroker.wire import Request
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from tests.broker.nodes import Node, opened_node
from tests.broker.share_members import ACCEPT, ShareMember

CLIENT = "User:client"
ALLOW, LITERAL, READ = 3, 3, 3
TOPIC, GROUP = 2, 3


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
        "share.coordinator.state.topic.num.partitions": "1",
    }
    with opened_node((str(tmp_path),), settings) as opened:
        opened.create("t")
        yield opened


def ask(node: Node, request: Request, principal: str) -> Any:
    api = next(api for api in APIS if api.key == request.api_key).guarded()
    return node.ask(api.handle, request, None, "10.0.0.7", principal)


def allow(node: Node, kind: int, name: str) -> None:
    request = CreateAclsRequest([AclCreation(kind, name, LITERAL, CLIENT, "*", READ, ALLOW)])
    assert [result.error_code for result in ask(node, request, "User:admin").results] == [0]


def error_of(answer: Any) -> int:
    return int(answer.error_code or answer.responses[0].partitions[0].error_code)


def test_member_reads_the_group_and_the_topic(node: Node) -> None:
    partition = node.broker.metadata.topics["t"].id, 0
    member = ShareMember(node, principal=CLIENT)
    assert error_of(member.fetch(partition)) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    member.epoch = 1
    assert member.acknowledge(partition, (0, 0, ACCEPT)) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    allow(node, GROUP, "g")
    member.epoch = 0
    assert error_of(member.fetch(partition)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert member.acknowledge(partition, (0, 0, ACCEPT)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allow(node, TOPIC, "t")
    answer = member.fetch(partition)
    assert (answer.error_code, answer.responses) == (ErrorCode.NONE, [])
