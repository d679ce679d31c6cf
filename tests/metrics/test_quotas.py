"""Metrics of quotas, after the use of a client on a clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from pylogbroker.long_loops import at_once
from pylogbroker.metrics import quotas
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity
from pylogbroker.security.quotas.keys import QuotaKey
from tests.broker.nodes import Node
from tests.broker.security.quota_clients import client, node_with_topic, set_quotas
from tests.broker.security.test_client_quotas import produce


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_with_topic(tmp_path) as opened:
        yield opened


def samples(node: Node) -> list[str]:
    out = Exposition()
    at_once(quotas.collect_quotas(out, node.broker.quotas))
    text = b"".join(at_once(out.encode())).decode()
    return [line for line in text.splitlines() if line.startswith("kafka_server_quota_")]


def test_without_quotas_there_are_no_samples(node: Node) -> None:
    client(node).ask(produce(5000), 9)
    assert samples(node) == []


def test_rates_and_throttle_times(node: Node) -> None:
    set_quotas(node, QuotaEntity(None, DEFAULT), {QuotaKey.PRODUCER_BYTE_RATE: 100.0})
    size = client(node).send(produce(5000), 9)
    throttle_ms = round((size / 10 - 100) / 100 * 10_000)
    labels = '{resource="Produce",user="",clientId="app"}'
    assert samples(node) == [
        f"kafka_server_quota_byte_rate{labels} {round(size / 10, 3)}",
        f"kafka_server_quota_throttle_time{labels} {throttle_ms}",
    ]
    node.clock.advance(20)
    assert [line.split()[-1] for line in samples(node)] == ["0.0", "0"]


def test_clients_share_a_quota_sample_and_only_active_ones_are_shown(node: Node) -> None:
    set_quotas(node, QuotaEntity(DEFAULT), {QuotaKey.PRODUCER_BYTE_RATE: 1e9})
    for name in ("one", "two"):
        client(node).ask(produce(100), 9, name)
    assert [line.split()[0] for line in samples(node)][:1] == [
        'kafka_server_quota_byte_rate{resource="Produce",user="ANONYMOUS",clientId=""}'
    ]
    assert len(samples(node)) == 2
    set_quotas(node, QuotaEntity(DEFAULT), {})
    set_quotas(node, QuotaEntity(None, DEFAULT), {QuotaKey.PRODUCER_BYTE_RATE: 1e9})
    for number in range(5):
        client(node).ask(produce(100 * number), 9, f"client-{number}")
    with patch.object(quotas, "CLIENTS_MAX", 2):
        shown = [line for line in samples(node) if "byte_rate" in line]
    assert ["client-4" in shown[0], "client-3" in shown[1], len(shown)] == [True, True, 2]
