"""Defaults of test brokers that a test can see: each is Kafka's, or a row of a table in `docs/testing.md`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pylogbroker.config import BrokerConfig
from pylogbroker.testing import Broker, MemoryBroker

OLD_MS = 1_577_836_800_000
PAGE = Path(__file__).parents[2] / "docs/testing.md"
PLACES = ("listeners", "listener.security.protocol.map", "inter.broker.listener.name", "log.dirs", "broker.id")


def documented() -> dict[str, tuple[str, ...]]:
    """Return the values of the page's table, one broker's first and a cluster's last, by their settings."""
    text = PAGE.read_text().partition("## Defaults that differ from Kafka's")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z.]+)` \| ([^|]+) \| ([^|]+) \|", text, re.MULTILINE)
    return {name: tuple(value.strip() for value in values) for name, *values in rows}


@pytest.mark.parametrize("column", [0, 1])
def test_the_page_has_all_defaults_that_differ(column: int) -> None:
    count = (1, 3)[column]
    kafka = BrokerConfig({"log.dirs": "/nowhere"})
    with Broker(brokers=count) as broker:  # its stop changes a setting
        values = broker.faults.broker.config.by_name()
    differing = {
        name: str(value).lower()
        for name, value in values.items()
        if value != kafka[name] and name not in (*PLACES, "testing.faults", "zookeeper.connect")
    }
    assert differing == {
        name: found[column] for name, found in documented().items() if found[column] != str(kafka[name]).lower()
    }


def test_records_with_old_timestamps_stay_for_the_interval_of_kafka() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        broker.produce("orders", "tea", timestamp_ms=OLD_MS)
        interval_ms = broker.faults.broker.config.integer("log.retention.check.interval.ms")
        assert interval_ms == BrokerConfig({"log.dirs": "/nowhere"}).integer("log.retention.check.interval.ms")
        assert len(broker.records("orders")) == 1
        broker.faults.logs.retain()
        assert broker.records("orders") == []


def test_retention_is_applied_when_the_clock_has_moved() -> None:
    """Even by less than the interval of retention's checks."""
    with Broker() as broker:
        topics = [broker.create_topic(name, retention_ms=60_000) for name in ("older", "younger")]
        broker.produce(topics[0], "tea")
        broker.produce(topics[1], "tea", timestamp_ms=broker.now_ms() + 3_000_000)
        broker.clock.advance("2m")
        assert [len(broker.records(topic)) for topic in topics] == [0, 1]


def test_the_clock_moves_while_the_broker_is_down() -> None:
    with Broker() as broker:
        broker.create_topic("orders", retention_ms=60_000)
        broker.produce("orders", "tea")
        broker.down()
        broker.clock.advance("2m")
        broker.up()
        assert len(broker.records("orders")) == 1
        broker.clock.advance(1)
        assert broker.records("orders") == []


def test_a_broker_in_memory_checks_retention_as_rarely_as_kafka() -> None:
    with MemoryBroker(now=OLD_MS / 1000) as broker:
        broker.create_topic("orders", retention_ms=60_000)
        broker.produce("orders", "tea")
        broker.clock.advance(200)
        assert len(broker.records("orders")) == 1
        broker.clock.advance(200)
        assert broker.records("orders") == []
