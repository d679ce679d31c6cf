"""Settings of single groups: bounds, defaults and what is described."""

from __future__ import annotations

import pytest

from pylogbroker.config import BrokerConfig, ConfigSource
from pylogbroker.config.group_config import GROUP, check_group, describe_group, group_values
from pylogbroker.errors import ConfigError
from pylogbroker.java.duration import milliseconds_of

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
RESET = "share.auto.offset.reset"
DEAD_LETTERS = "errors.deadletterqueue.topic.name"


@pytest.fixture
def config() -> BrokerConfig:
    return BrokerConfig({"group.consumer.session.timeout.ms": "50000"})


@pytest.mark.parametrize(
    "settings",
    [
        {SESSION: "45000", HEARTBEAT: "15000", "consumer.assignment.interval.ms": "0"},
        {"share.session.timeout.ms": "60000", "share.heartbeat.interval.ms": "15000"},
        {"share.record.lock.duration.ms": "15000", "share.delivery.count.limit": "10"},
        {"share.partition.max.record.locks": "4000", "share.isolation.level": "read_committed"},
        {RESET: "by_duration:P1DT2H", "share.renew.acknowledge.enable": "FALSE"},
        {DEAD_LETTERS: "dlq.orders", "errors.deadletterqueue.copy.record.enable": "true"},
        {DEAD_LETTERS: ""},
        {"streams.num.standby.replicas": "2", "streams.initial.rebalance.delay.ms": "0"},
        {"streams.rack.aware.assignment.tags": "zone,cluster", "streams.assignor.name": "sticky"},
    ],
)
def test_values_within_the_bounds_are_accepted(config: BrokerConfig, settings: dict[str, str]) -> None:
    check_group(config, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {SESSION: "44999"},
        {SESSION: "60001"},
        {SESSION: "long"},
        {HEARTBEAT: "4999"},
        {"consumer.assignment.interval.ms": "15001"},
        {"streams.session.timeout.ms": "44999"},
        {"streams.num.standby.replicas": "3"},
        {"streams.assignor.name": "range"},
        {"streams.topology": "t"},
        {"share.session.timeout.ms": "44999"},
        {"share.heartbeat.interval.ms": "15001"},
        {"share.assignment.interval.ms": "-1"},
        {"share.record.lock.duration.ms": "14999"},
        {"share.delivery.count.limit": "11"},
        {"share.partition.max.record.locks": "99"},
        {"share.isolation.level": "committed"},
        {"share.renew.acknowledge.enable": "yes"},
        {RESET: "none"},
        {RESET: "by_duration:-PT1H"},
        {RESET: "by_duration:1h"},
    ],
)
def test_other_settings_are_rejected(config: BrokerConfig, settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        check_group(config, settings)


@pytest.mark.parametrize(("topic", "why"), [("dlq. t", "characters"), ("__dlq", "internal"), ("orders", "begins with")])
def test_topics_that_cannot_have_dead_letters_are_rejected(config: BrokerConfig, topic: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check_group(config, {DEAD_LETTERS: topic})


def test_any_name_is_accepted_for_dead_letters_without_a_prefix() -> None:
    check_group(BrokerConfig({"errors.deadletterqueue.topic.name.prefix": ""}), {DEAD_LETTERS: "orders"})


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_heartbeats_must_be_more_frequent_than_sessions(kind: str) -> None:
    config = BrokerConfig({f"group.{kind}.min.session.timeout.ms": "1000"})
    with pytest.raises(ConfigError, match="expected less than"):
        check_group(config, {f"{kind}.session.timeout.ms": "5000", f"{kind}.heartbeat.interval.ms": "5000"})


def test_stored_values_follow_the_bounds_of_today(config: BrokerConfig) -> None:
    assert group_values(config, {})[SESSION] == 50_000
    assert group_values(config, {SESSION: "1000"})[SESSION] == 45_000
    assert group_values(config, {RESET: "nonsense"})[RESET] == "latest"


def test_description_has_the_source_of_each_value(config: BrokerConfig) -> None:
    rows = {row.name: (row.value, row.source) for row in describe_group(config, {SESSION: "55000"})}
    assert rows[SESSION] == ("55000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert rows[HEARTBEAT] == ("5000", ConfigSource.DEFAULT_CONFIG)
    assert rows["share.renew.acknowledge.enable"] == ("true", ConfigSource.DEFAULT_CONFIG)
    assert rows.keys() == GROUP.keys()


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0S", 0),
        ("PT1H30M", 5_400_000),
        ("p2dt4h", 187_200_000),
        ("PT0.5S", 500),
        ("PT1.000999999S", 1_000),
        ("P1D", 86_400_000),
        ("P", None),
        ("P1DT", None),
        ("PT", None),
        ("PT-1H", None),
        ("P1H", None),
        ("1h", None),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, milliseconds: int | None) -> None:
    assert milliseconds_of(text) == milliseconds
