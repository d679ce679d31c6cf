"""Lag of groups at partitions of other brokers, with leaders that answer, fail, and do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from pylogbroker.broker.apis import find_coordinator, offset_commit
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import advance, at_once
from pylogbroker.metrics.coordinators import collect_groups
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.lag_age import LagAges
from pylogbroker.metrics.remote_ends import KEPT_SECONDS, WAIT_SECONDS, RemoteEnds
from pylogbroker.wire import Request
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.nodes import Node, opened_node

OTHER, THIRD = 8, 9
COMMITTED = {0: 1, 1: 3, 2: 5, 3: 7}
LEADERS = {1: OTHER, 2: OTHER, 3: THIRD}


@attrs.define
class Brokers:
    """Brokers that answer with a high watermark for all partitions, with an error, or when the test says so."""

    ends: dict[int, int] = attrs.field(factory=dict)
    asked: list[tuple[int, list[int]]] = attrs.field(factory=list)
    held: list[Deferred[None]] = attrs.field(factory=list)
    is_holding: bool = False

    async def send(self, broker_id: int, request: Request, version: int | None = None) -> Any:
        [topic] = request.topics  # type: ignore[attr-defined]
        self.asked.append((broker_id, [each.partition_index for each in topic.partitions]))
        if self.is_holding:
            self.held.append(Deferred())
            await self.held[-1]
        if broker_id not in self.ends:
            raise KafkaError("gone", ErrorCode.NETWORK_EXCEPTION)
        answers = [ListOffsetsPartitionResponse(each.partition_index) for each in topic.partitions]
        for each in answers:
            each.offset = self.ends[broker_id]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(topic.name, answers)])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with opened_node((str(tmp_path),)) as opened:
        opened.create("t")
        opened.produce("t", 0, 1, 2, 3)
        for index, leader in LEADERS.items():
            opened.add_partition("t", index, leader)
        opened.ask(find_coordinator.handle, FindCoordinatorRequest(coordinator_keys=["g"]))
        offsets = [OffsetCommitRequestPartition(index, offset) for index, offset in COMMITTED.items()]
        request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=offsets)])
        answer = opened.ask(offset_commit.handle, request)
        assert [each.error_code for each in answer.topics[0].partitions] == [0] * len(COMMITTED)
        yield opened


def lags(node: Node, ends: RemoteEnds) -> dict[int, int]:
    out = Exposition()
    at_once(collect_groups(out, node.broker, ends, LagAges(), has_partitions=True))
    lines = b"".join(at_once(out.encode())).decode().splitlines()
    found = [line for line in lines if line.startswith("kafka_consumergroup_lag{")]
    return {int(line.partition('partition="')[2].partition('"')[0]): int(line.split()[-1]) for line in found}


def test_scrapes_at_the_same_time_keep_the_age_of_a_lag(node: Node) -> None:
    """Two servers of Prometheus may scrape a broker."""
    offsets = [OffsetCommitRequestPartition(0, 3)]  # without a lag
    node.ask(offset_commit.handle, OffsetCommitRequest("h", topics=[OffsetCommitRequestTopic("t", partitions=offsets)]))
    ends, ages, out = RemoteEnds(node.broker, None), LagAges(), Exposition()
    first, second = (collect_groups(Exposition(), node.broker, ends, ages, has_partitions=False) for _ in range(2))
    for _ in range(3):  # up to the second group
        advance(first)
    at_once(second)
    at_once(first)
    node.clock.advance(60)
    at_once(collect_groups(out, node.broker, ends, ages, has_partitions=False))
    lines = b"".join(at_once(out.encode())).decode().splitlines()
    found = [line.split()[-1] for line in lines if line.startswith("pylogbroker_consumergroup_lag_seconds{")]
    assert sorted(map(float, found)) == [0.0, 60.0]


def test_leaders_are_asked_once_for_all_their_partitions(node: Node) -> None:
    others = Brokers({OTHER: 10, THIRD: 6})
    ends = RemoteEnds(node.broker, others)
    assert lags(node, ends) == {0: 2}
    ensureDeferred(ends.refresh())
    assert sorted(others.asked) == [(OTHER, [1, 2]), (THIRD, [3])]
    assert lags(node, ends) == {0: 2, 1: 7, 2: 5, 3: 0}  # 3: committed since the leader was asked


def test_a_leader_that_fails_keeps_its_last_values_for_a_time(node: Node) -> None:
    others = Brokers({OTHER: 10, THIRD: 10})
    ends = RemoteEnds(node.broker, others)
    ensureDeferred(ends.refresh())
    del others.ends[THIRD]
    others.ends[OTHER] = 20
    ensureDeferred(ends.refresh())
    assert lags(node, ends) == {0: 2, 1: 17, 2: 15, 3: 3}
    node.clock.advance(KEPT_SECONDS + 1)
    ensureDeferred(ends.refresh())
    assert lags(node, ends) == {0: 2, 1: 17, 2: 15}


def test_a_slow_leader_delays_a_scrape_only_so_long_and_is_asked_once(node: Node) -> None:
    others = Brokers({OTHER: 10, THIRD: 10}, is_holding=True)
    ends = RemoteEnds(node.broker, others)
    first = ensureDeferred(ends.refresh())
    assert not first.called
    node.clock.advance(WAIT_SECONDS)
    assert first.called
    again = ensureDeferred(ends.refresh())
    assert again.called
    assert len(others.asked) == len(others.held) == 2
    for each in others.held:
        each.callback(None)
    assert lags(node, ends) == {0: 2, 1: 7, 2: 5, 3: 3}
    others.is_holding = False
    ensureDeferred(ends.refresh())
    assert len(others.asked) == 4


def test_a_broker_that_is_alone_asks_nobody(node: Node) -> None:
    ends = RemoteEnds(node.broker, None)
    assert ensureDeferred(ends.refresh()).called
    assert lags(node, ends) == {0: 2}
