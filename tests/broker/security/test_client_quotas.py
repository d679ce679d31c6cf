"""Quotas in force: throttle times in answers, and connections that are muted, on a clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pylogbroker.records import Record, build
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity
from pylogbroker.security.quotas.keys import QuotaKey
from pylogbroker.wire import request_codec
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.metadata import MetadataRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.nodes import Node
from tests.broker.security.quota_clients import ANYBODY, client, node_with_topic, set_quotas

IN = QuotaKey.PRODUCER_BYTE_RATE
MEGABYTE = 1024 * 1024


def produce(size: int, acks: int = 1) -> ProduceRequest:
    batch = build([Record(0, 1, None, b"v" * size)])
    return ProduceRequest(None, acks, 1000, [TopicProduceData("t", [PartitionProduceData(0, batch)])])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_with_topic(tmp_path) as opened:
        yield opened


def test_produce_is_answered_at_once_and_mutes_the_connection(node: Node) -> None:
    set_quotas(node, ANYBODY, {IN: 1000.0})
    one, other = client(node), client(node)
    assert one.ask(produce(5000), 9).throttle_time_ms == 0
    request = produce(7000)
    size = one.send(request, 9)
    used = size + len(b"".join(map(bytes, request_codec(0, 9).frame(1, "app", produce(5000))))) - 4
    answer = one.answer(request, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    throttle_ms = round((used / 10 - 1000) / 1000 * 10_000)
    assert answer.throttle_time_ms == throttle_ms > 2000
    assert one.is_muted
    assert one.ask(MetadataRequest(None), 9) is None
    assert not other.is_muted
    assert other.ask(MetadataRequest(None), 9).throttle_time_ms == 0
    assert other.ask(produce(10), 9).throttle_time_ms > throttle_ms  # all of a user share its quota
    node.clock.advance(throttle_ms / 1000 - 0.001)
    assert one.answer(MetadataRequest(None), 9) is None
    node.clock.advance(0.001)
    assert one.answer(MetadataRequest(None), 9).topics[0].name == "t"
    assert not one.is_muted


def test_old_versions_are_answered_at_once_too(node: Node) -> None:
    set_quotas(node, ANYBODY, {IN: 1000.0})
    old = client(node)
    assert old.ask(produce(20_000), 3).throttle_time_ms > 10_000
    assert old.is_muted


def test_produce_without_acknowledgement_mutes_only(node: Node) -> None:
    set_quotas(node, ANYBODY, {IN: 1000.0})
    one = client(node)
    assert one.ask(produce(20_000, acks=0), 9) is None
    assert one.is_muted


def test_a_connection_that_is_lost_while_muted(node: Node) -> None:
    set_quotas(node, ANYBODY, {IN: 1000.0})
    one = client(node)
    one.ask(produce(20_000), 9)
    calls = len(node.clock.getDelayedCalls())
    one.protocol.connectionLost()
    assert len(node.clock.getDelayedCalls()) == calls - 1


def test_quota_of_a_megabyte_per_second(node: Node) -> None:
    """Let a client produce as fast as it may, over three times the 11 s of the windows: each begins with a burst."""
    set_quotas(node, QuotaEntity(None, "app"), {IN: float(MEGABYTE)})
    one = client(node)
    request, sent = produce(100_000), 0
    for _ in range(3300):
        if not one.is_muted:
            sent += one.send(request, 9)
            assert one.answer(request, 9) is not None
        node.clock.advance(0.01)
    assert sent / 33 == pytest.approx(MEGABYTE, rel=0.05)


def test_share_of_the_reactors_time(node: Node) -> None:
    set_quotas(node, QuotaEntity(None, "app"), {QuotaKey.REQUEST_PERCENTAGE: 0.0000001})
    one = client(node)
    for request, version in ((ApiVersionsRequest(), 3), (MetadataRequest(None), 9)):
        assert one.ask(request, version).throttle_time_ms == 1000  # never more than one window
        assert one.is_muted
        node.clock.advance(1.0)
    assert client(node).ask(MetadataRequest(None), 9, "other").throttle_time_ms == 0


def test_time_of_coroutines_counts(node: Node) -> None:
    set_quotas(node, QuotaEntity(None, "app"), {QuotaKey.REQUEST_PERCENTAGE: 0.0000001})
    one = client(node)
    answer = one.ask(CreateTopicsRequest([CreatableTopic("u", 1, 1)], 1000), 7)
    assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 1000)


def test_nothing_is_measured_without_quotas(node: Node) -> None:
    assert node.broker.quotas.meters is None
    set_quotas(node, QuotaEntity(ip=DEFAULT), {QuotaKey.CONNECTION_CREATION_RATE: 1.0})
    assert node.broker.quotas.meters is None
    set_quotas(node, ANYBODY, {IN: 1000.0})
    assert node.broker.quotas.meters is not None
    set_quotas(node, ANYBODY, {})
    assert node.broker.quotas.meters is None
