"""Fetches of clients with quotas: over them, answers are empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from pylogbroker.metadata.delta import ConfigChanged, Delta
from pylogbroker.metadata.image import group_resource
from pylogbroker.security.quotas.entities import QuotaEntity
from pylogbroker.security.quotas.keys import QuotaKey
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from tests.broker.nodes import Node
from tests.broker.security.quota_clients import ANYBODY, client, node_with_topic, set_quotas
from tests.broker.trees import now

OUT = QuotaKey.CONSUMER_BYTE_RATE


def fetch(max_bytes: int = 100_000_000, session_id: int = 0, epoch: int = -1) -> FetchRequest:
    partitions = [FetchPartition(0, -1, 0, partition_max_bytes=max_bytes)]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic("t", partitions=partitions)] if epoch <= 0 else [],
    )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_with_topic(tmp_path) as opened:
        yield opened


def test_fetch_over_the_quota_gets_no_records(node: Node) -> None:
    node.produce("t", 0, *range(1, 200))
    one = client(node)
    size = len(one.ask(fetch(), 11).responses[0].partitions[0].records)
    set_quotas(node, QuotaEntity(None, "app"), {OUT: size // 10 + 1.0})
    assert one.ask(fetch(), 11).responses[0].partitions[0].records
    throttled = one.ask(fetch(), 11)
    assert (throttled.responses, throttled.error_code, throttled.session_id) == ([], 0, 0)
    assert throttled.throttle_time_ms == pytest.approx(10_000, rel=0.01)  # twice as much as in 10 s
    assert one.is_muted
    # what was not sent does not count
    assert client(node).ask(fetch(), 11).throttle_time_ms == throttled.throttle_time_ms
    node.clock.advance(10.0)
    node.clock.advance(1.0)
    assert one.ask(fetch(), 11).responses[0].partitions[0].records


def test_sessions_of_throttled_fetches(node: Node) -> None:
    node.produce("t", 0, *range(1, 200))
    one = client(node)
    begun = one.ask(fetch(epoch=0), 11)
    assert begun.session_id > 0
    set_quotas(node, QuotaEntity(None, "app"), {OUT: 1.0})
    resumed = one.ask(fetch(session_id=begun.session_id, epoch=1), 11)
    assert (resumed.responses, resumed.session_id) == ([], begun.session_id)
    assert resumed.throttle_time_ms > 0
    sessions = len(node.broker.fetches.sessions)
    new = client(node).ask(fetch(epoch=0), 11)
    assert (new.responses, new.session_id) == ([], 0)  # the client begins it again
    assert len(node.broker.fetches.sessions) == sessions


def test_fetch_gets_no_more_than_an_idle_client_may(node: Node) -> None:
    for _ in range(10):
        node.produce("t", 0, *range(1, 200))
    one = client(node)
    size = len(one.ask(fetch(), 11).responses[0].partitions[0].records)
    set_quotas(node, QuotaEntity(None, "app"), {OUT: size / 20.0 // 1})
    answer = one.ask(fetch(), 11)
    assert answer.throttle_time_ms == 0
    assert 0 < len(answer.responses[0].partitions[0].records) <= size / 2


def test_followers_are_not_throttled(node: Node) -> None:
    node.produce("t", 0, *range(1, 200))
    set_quotas(node, ANYBODY, {OUT: 1.0, QuotaKey.REQUEST_PERCENTAGE: 0.0000001})
    request = attrs.evolve(fetch(), replica_id=5)
    follower = client(node)
    assert follower.ask(request, 11).throttle_time_ms == 0
    assert not follower.is_muted


def test_member_of_a_share_group_is_throttled_after_what_it_acquires(node: Node) -> None:
    now(
        node.broker.metadata.publish(
            Delta.of(ConfigChanged(group_resource("g"), {"share.auto.offset.reset": "earliest"}))
        )
    )
    node.produce("t", 0, *range(1, 200))
    one = client(node)
    topics = [ShareFetchTopic(node.broker.metadata.topics["t"].id, [ShareFetchPartition(0)])]
    request = ShareFetchRequest("g", "m", 0, 0, 1, 1_000_000, 500, 500, topics=topics)
    set_quotas(node, QuotaEntity(None, "app"), {OUT: 10.0})
    [answer] = one.ask(request, 2).responses[0].partitions
    assert [(acquired.first_offset, acquired.last_offset) for acquired in answer.acquired_records] == [(0, 198)]
    assert one.is_muted
    used = [use for use in node.broker.quotas.used() if use.key is OUT]
    assert [use.per_second > 100 for use in used] == [True]
