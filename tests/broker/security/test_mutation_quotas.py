"""Changes of topics by clients with quotas (KIP-599)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.security.quotas.keys import QuotaKey
from pylogbroker.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.nodes import Node
from tests.broker.security.quota_clients import ANYBODY, client, node_with_topic, set_quotas


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_with_topic(tmp_path) as opened:
        yield opened


def test_changes_of_topics_are_rejected_when_tokens_are_used_up(node: Node) -> None:
    set_quotas(node, ANYBODY, {QuotaKey.CONTROLLER_MUTATION_RATE: 1.0})
    one = client(node)

    def create(name: str, count: int, version: int = 6) -> tuple[int, int]:
        answer = one.ask(CreateTopicsRequest([CreatableTopic(name, count, 1)], 1000), version)
        return answer.topics[0].error_code, answer.throttle_time_ms

    exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert create("a", 10) == (0, 0)
    assert create("b", 3) == (0, 0)  # one token is left: that is enough for any request
    assert create("c", 1) == (exceeded, 2000)
    assert "c" not in node.broker.metadata.topics
    node.clock.advance(2.0)
    assert create("c", 1) == (0, 0)
    enlarged = CreatePartitionsRequest([CreatePartitionsTopic("c", 2, None)], 1000)
    assert one.ask(enlarged, 3).results[0].error_code == exceeded
    node.clock.advance(1.0)
    assert one.ask(enlarged, 3).results[0].error_code == 0
    deletion = DeleteTopicsRequest([DeleteTopicState("b")], timeout_ms=1000)
    assert one.ask(deletion, 6).responses[0].error_code == exceeded
    node.clock.advance(1.0)
    assert one.ask(deletion, 6).responses[0].error_code == 0
    assert create("d", 1, version=5) == (0, 4000)  # old clients are throttled after the change
    assert one.is_muted
