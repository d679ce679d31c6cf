"""Access to the states of share groups: brokers may ask, others get an error for each partition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pylogbroker.broker.apis import APIS
from pylogbroker.errors import ErrorCode
from pylogbroker.wire import Request
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    DeleteStatePartition,
)
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    InitializeStatePartition,
)
from pylogbroker.wire.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStateData,
    ReadStatePartition,
)
from pylogbroker.wire.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
    ReadStateSummaryPartition,
)
from pylogbroker.wire.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStatePartition,
    WriteStateTopic,
)
from tests.broker.nodes import Node, opened_node
from tests.broker.trees import now

CLIENT = "User:client"
CLUSTER, CLUSTER_ACTION, LITERAL, ALLOW = 4, 9, 3, 3
TOPIC = UUID(int=1)
REQUESTS = (
    InitializeShareGroupStateRequest("g", [InitializeStateData(TOPIC, [InitializeStatePartition(3, 1, 1)])]),
    ReadShareGroupStateRequest("g", [ReadStateData(TOPIC, [ReadStatePartition(3)])]),
    WriteShareGroupStateRequest("g", [WriteStateTopic(TOPIC, [WriteStatePartition(3, 1)])]),
    ReadShareGroupStateSummaryRequest("g", [ReadStateSummaryData(TOPIC, [ReadStateSummaryPartition(3)])]),
    DeleteShareGroupStateRequest("g", [DeleteStateData(TOPIC, [DeleteStatePartition(3)])]),
)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
        "share.coordinator.state.topic.num.partitions": "1",
    }
    with opened_node((str(tmp_path),), settings) as opened:
        now(opened.broker.share_states.ensure_topic())
        yield opened


def ask(node: Node, request: Request, principal: str = CLIENT) -> Any:
    api = next(api for api in APIS if api.key == request.api_key).guarded()
    return node.ask(api.handle, request, None, "10.0.0.7", principal)


def allow_cluster_action(node: Node) -> None:
    creation = AclCreation(CLUSTER, "kafka-cluster", LITERAL, CLIENT, "*", CLUSTER_ACTION, ALLOW)
    assert [result.error_code for result in ask(node, CreateAclsRequest([creation]), "User:admin").results] == [0]


@pytest.mark.parametrize("request_of_broker", REQUESTS, ids=lambda request: type(request).__name__)
def test_states_are_for_brokers(node: Node, request_of_broker: Request) -> None:
    for code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE):
        [topic] = ask(node, request_of_broker).results
        [partition] = topic.partitions
        assert (topic.topic_id, partition.partition, partition.error_code) == (TOPIC, 3, code)
        allow_cluster_action(node)


def test_coordinator_of_a_share_partition_is_for_brokers(node: Node) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAQ:3"])
    for code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE):
        assert [coordinator.error_code for coordinator in ask(node, request).coordinators] == [code]
        allow_cluster_action(node)
