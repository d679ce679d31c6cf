"""`pylogbroker mirror status` and mirrors of the command, between two brokers in threads."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from pylogbroker.cli import main
from pylogbroker.mirror_records.formats import MirrorHeartbeat
from pylogbroker.mirror_records.status import MirroredTopicReport, StatusReport
from pylogbroker.testing import Broker

REPORT = StatusReport(
    7, 100, 2000, 5.5, 60.0, (MirroredTopicReport("orders", "east.orders", 3, 7),), {"bills": "why\x07"}
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def invoke(broker: Broker, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["mirror", "status", *arguments, "-b", broker.bootstrap])


def rows(broker: Broker, *arguments: str) -> list[dict[str, Any]]:
    result = invoke(broker, *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    answer: list[dict[str, Any]] = json.loads(result.stdout)
    return answer


def test_cluster_without_heartbeats_has_no_mirrors(broker: Broker) -> None:
    assert rows(broker) == []
    assert "No mirror has written a heartbeat" in invoke(broker).stderr


def test_mirrors_are_shown_by_their_last_heartbeats(broker: Broker) -> None:
    now = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    beats = [
        (MirrorHeartbeat("east", "here", now - 50_000), [StatusReport(99).header()]),
        (MirrorHeartbeat("east", "here", now), [REPORT.header()]),
        (MirrorHeartbeat("west", "here", now - 100_000), []),
    ]
    for beat, headers in beats:
        producer.produce("heartbeats", beat.value(), beat.key(), headers=headers)
    producer.flush(60)
    east, west = rows(broker)
    assert (east["source"], east["target"], east["state"], east["lag"]) == ("east", "here", "running", 7)
    assert (east["records_per_second"], east["bytes_per_second"], east["stopped"]) == (5.5, 60.0, ["bills"])
    assert (west["source"], west["state"], west["lag"]) == ("west", "silent", None)
    assert 100 <= west["seconds"] < 400
    assert rows(broker, "--topics") == [
        {"source": "east", "topic": "orders", "target": "east.orders", "partitions": 3, "lag": 7}
    ]
    stderr = invoke(broker).stderr
    assert "topic bills is not mirrored: why" in stderr
    assert "\x07" not in stderr
