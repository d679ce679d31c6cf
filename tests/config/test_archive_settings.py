"""Settings of archived topics, as Kafka checks them."""

from __future__ import annotations

import pytest

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError

ARCHIVED = {"remote.storage.enable": "true"}
CONFIG = BrokerConfig({"remote.log.storage.system.enable": "true"})


@pytest.mark.parametrize(
    ("overrides", "error_line"),
    [
        ({"cleanup.policy": "compact"}, "a compacted topic cannot be archived"),
        ({"cleanup.policy": "compact,delete"}, "a compacted topic cannot be archived"),
        ({"message.format.version": "0.10.0"}, "message.format.version must be 0.11.0 or newer"),
        ({"retention.ms": "1000", "local.retention.ms": "1001"}, "expected at most retention.ms, 1000"),
        ({"retention.ms": "1000", "local.retention.ms": "-1"}, "expected at most retention.ms, 1000"),
        ({"retention.bytes": "10", "local.retention.bytes": "11"}, "expected at most retention.bytes, 10"),
        ({"local.retention.ms": "10", "remote.copy.lag.ms": "11"}, "expected at most local.retention.ms, 10"),
        ({"retention.bytes": "10", "remote.copy.lag.bytes": "11"}, "expected at most local.retention.bytes, 10"),
        (
            {"retention.ms": "1000", "local.retention.ms": "10", "remote.log.copy.disable": "true"},
            "expected -2 or retention.ms, 1000, since remote.log.copy.disable is true",
        ),
    ],
)
def test_settings_that_an_archived_topic_must_not_have(overrides: dict[str, str], error_line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CONFIG.check_topic(ARCHIVED | overrides)
    assert error_line in str(caught.value)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"retention.ms": "-1", "local.retention.ms": "1000"},
        {"retention.ms": "1000", "local.retention.ms": "1000"},
        {"local.retention.ms": "10", "remote.copy.lag.ms": "10", "remote.copy.lag.bytes": "99"},
        {"retention.ms": "-1", "remote.copy.lag.ms": "99", "remote.copy.lag.bytes": "-1"},
        {"retention.ms": "1000", "local.retention.ms": "-2", "remote.log.copy.disable": "true"},
    ],
)
def test_settings_that_an_archived_topic_may_have(overrides: dict[str, str]) -> None:
    CONFIG.check_topic(ARCHIVED | overrides)


def test_a_broker_without_remote_storage_archives_nothing() -> None:
    with pytest.raises(ConfigError, match="unless the broker has remote"):
        BrokerConfig({}).check_topic(ARCHIVED)


def test_topics_without_ids_are_not_archived() -> None:
    cluster = {"remote.log.storage.system.enable": "true", "zookeeper.connect": "a:1"}
    with pytest.raises(ConfigError, match="topics have the ids that name their objects"):
        BrokerConfig({**cluster, "inter.broker.protocol.version": "2.7"}).check_topic(ARCHIVED)
    BrokerConfig({**cluster, "inter.broker.protocol.version": "2.8"}).check_topic(ARCHIVED)


def test_an_archive_ends_only_if_it_may_be_deleted() -> None:
    with pytest.raises(ConfigError, match="also set remote"):
        CONFIG.check_topic({}, ARCHIVED)
    CONFIG.check_topic({"remote.log.delete.on.disable": "true"}, ARCHIVED)


def test_local_retention_is_the_whole_one_unless_it_is_set() -> None:
    plain = CONFIG.topic({"retention.ms": "1000", "retention.bytes": "10"}).local()
    assert (plain.retention_ms, plain.retention_bytes) == (1000, 10)
    shorter = CONFIG.topic({"retention.ms": "1000", "local.retention.ms": "5", "local.retention.bytes": "3"}).local()
    assert (shorter.retention_ms, shorter.retention_bytes) == (5, 3)


@pytest.mark.parametrize(
    ("overrides", "age_ms", "newer_bytes", "is_over"),
    [
        ({}, 0, 0, True),
        ({"remote.copy.lag.ms": "100"}, 99, 10**9, False),
        ({"remote.copy.lag.ms": "100"}, 100, 0, True),
        ({"remote.copy.lag.ms": "100"}, -1, 0, True),  # a record of the future
        ({"remote.copy.lag.ms": "100", "remote.copy.lag.bytes": "10"}, 1, 9, False),
        ({"remote.copy.lag.ms": "100", "remote.copy.lag.bytes": "10"}, 1, 10, True),
        ({"remote.copy.lag.ms": "100", "remote.copy.lag.bytes": "0"}, 1, 0, True),
        ({"remote.copy.lag.ms": "-1", "local.retention.ms": "50"}, 49, 0, False),
        ({"remote.copy.lag.ms": "-1", "local.retention.ms": "50"}, 50, 0, True),
        ({"remote.copy.lag.ms": "-1", "retention.ms": "70"}, 69, 0, False),
        ({"remote.copy.lag.ms": "-1", "retention.ms": "70"}, 70, 0, True),
        ({"remote.copy.lag.ms": "-1", "retention.ms": "-1"}, 10**15, 10**15, False),
        ({"remote.copy.lag.ms": "-1", "retention.ms": "-1", "local.retention.bytes": "5"}, 0, 5, True),
        ({"remote.copy.lag.ms": "-1", "retention.ms": "-1", "retention.bytes": "5"}, 0, 4, False),
    ],
)
def test_a_segment_is_copied_when_one_lag_is_over(
    overrides: dict[str, str], age_ms: int, newer_bytes: int, is_over: bool
) -> None:
    """The rules of Apache Kafka 4.4, RemoteLogManager's isEligibleForUpload."""
    assert CONFIG.topic(overrides).copy_lag().is_over(age_ms, newer_bytes) is is_over
