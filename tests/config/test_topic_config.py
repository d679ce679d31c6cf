"""A topic's settings: its own, the broker's, and errors."""

from __future__ import annotations

import pytest

from pylogbroker.config import BrokerConfig
from pylogbroker.config.formats import magic_of
from pylogbroker.errors import ConfigError


def test_a_topics_own_settings_come_before_the_brokers() -> None:
    config = BrokerConfig({"log.retention.minutes": "2", "log.segment.bytes": "500"})
    topic = config.topic({"segment.bytes": "600"})
    assert topic.integer("segment.bytes") == 600
    assert topic.integer("retention.ms") == 120_000
    assert topic.overrides == {"segment.bytes": "600"}


def test_topics_alike_share_their_settings() -> None:
    config = BrokerConfig({})
    one = config.topic({"retention.ms": "5", "segment.ms": "7"})
    assert config.topic({"segment.ms": "7", "retention.ms": "5"}) is one


@pytest.mark.parametrize(
    ("overrides", "error_line"),
    [
        ({"retention.m": "5"}, "retention.m: there is no such topic setting; did you mean retention.ms?"),
        ({"retention.ms": "-2"}, "retention.ms: '-2' is not accepted; expected a whole number from -1 to"),
        (
            {"cleanup.policy": "keep"},
            "cleanup.policy: 'keep' is not accepted; expected any of compact, delete, or nothing",
        ),
        ({"leader.replication.throttled.replicas": "1-2"}, "expected partition:broker pairs"),
        ({"leader.replication.throttled.replicas": "\u0661:\u0662"}, "expected partition:broker pairs"),
        ({"leader.replication.throttled.replicas": "0:1,*"}, "expected partition:broker pairs"),
        ({"retention.ms": "\u00a01000"}, "expected a whole number"),
        ({"min.cleanable.dirty.ratio": "1_0e-2"}, "expected a number"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "expected at most max.compaction.lag.ms, 8"),
        ({"message.format.version": "0.6"}, "expected a Kafka release from 0.7 on"),
    ],
)
def test_bad_settings_are_rejected(overrides: dict[str, str], error_line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({}).topic(overrides)
    assert error_line in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "error_line"),
    [
        ("min", "9", "min.compaction.lag.ms: 9 is not accepted; expected at most log.cleaner.max.compaction.lag.ms, 8"),
        (
            "max",
            "2",
            "max.compaction.lag.ms: 2 is not accepted; expected at least log.cleaner.min.compaction.lag.ms, 3",
        ),
    ],
)
def test_compaction_lag_errors_name_the_setting_that_was_given(name: str, text: str, error_line: str) -> None:
    broker = BrokerConfig({"log.cleaner.min.compaction.lag.ms": "3", "log.cleaner.max.compaction.lag.ms": "8"})
    with pytest.raises(ConfigError) as caught:
        broker.topic({f"{name}.compaction.lag.ms": text})
    assert str(caught.value) == error_line


@pytest.mark.parametrize("text", ["", "*", "0:1", "0:1, 12:3"])
def test_throttled_replicas(text: str) -> None:
    topic = BrokerConfig({}).topic({"follower.replication.throttled.replicas": text})
    assert ",".join(topic.texts("follower.replication.throttled.replicas")) == text.replace(" ", "")


@pytest.mark.parametrize(
    ("version", "magic"),
    [
        ("0.8.0", 0), ("0.8.2", 0), ("0.9.0", 0), ("0.9", 0), ("0.10.0-IV0", 1), ("0.10", 1), ("0.10.2-IV0", 1),
        ("0.11.0", 2), ("0.11.0-IV2", 2), ("1.0", 2), ("3.0-IV1", 2), ("3.9-IV0", 2), ("4.0", 2),
    ],
)  # fmt: skip
def test_the_magic_of_a_release(version: str, magic: int) -> None:
    assert magic_of(version) == magic


@pytest.mark.parametrize("version", ["0.7", "0.7.2", "5.0", "", "two", "3", "3.0-IV", "3.0-1", " 3.0"])
def test_an_unknown_release_has_no_magic(version: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        magic_of(version)


@pytest.mark.parametrize(
    ("policy", "compacts", "deletes"),
    [("delete", False, True), ("compact", True, False), ("compact,delete", True, True), ("", False, False)],
)
def test_cleanup_policies(policy: str, compacts: bool, deletes: bool) -> None:
    topic = BrokerConfig({}).topic({"cleanup.policy": policy})
    assert (topic.compacts, topic.deletes) == (compacts, deletes)


@pytest.mark.parametrize(
    ("overrides", "before", "after"),
    [
        ({}, 2**63 - 1, 2**63 - 1),
        ({"message.timestamp.difference.max.ms": "5"}, 5, 5),
        ({"message.timestamp.difference.max.ms": "5", "message.timestamp.after.max.ms": "7"}, 5, 7),
        ({"message.timestamp.before.max.ms": "3"}, 3, 2**63 - 1),
    ],
)
def test_the_older_timestamp_bound_applies_without_the_newer_one(
    overrides: dict[str, str], before: int, after: int
) -> None:
    topic = BrokerConfig({}).topic(overrides)
    assert (topic.timestamp_before_max_ms, topic.timestamp_after_max_ms) == (before, after)
