"""Settings of single consumer groups: bounds, defaults and what is described."""

from __future__ import annotations

import pytest

from pylogbroker.config import BrokerConfig, ConfigSource
from pylogbroker.config.group_config import check_group, describe_group, group_values
from pylogbroker.errors import ConfigError

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


@pytest.fixture
def config() -> BrokerConfig:
    return BrokerConfig({"group.consumer.session.timeout.ms": "50000"})


def test_values_within_the_bounds_are_accepted(config: BrokerConfig) -> None:
    check_group(config, {SESSION: "45000", HEARTBEAT: "15000", "consumer.assignment.interval.ms": "0"})


@pytest.mark.parametrize(
    "settings",
    [
        {SESSION: "44999"},
        {SESSION: "60001"},
        {SESSION: "long"},
        {HEARTBEAT: "4999"},
        {"consumer.assignment.interval.ms": "15001"},
        {"share.session.timeout.ms": "45000"},
    ],
)
def test_other_settings_are_rejected(config: BrokerConfig, settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        check_group(config, settings)


def test_heartbeats_must_be_more_frequent_than_sessions() -> None:
    config = BrokerConfig({"group.consumer.min.session.timeout.ms": "1000"})
    with pytest.raises(ConfigError, match="expected less than"):
        check_group(config, {SESSION: "5000", HEARTBEAT: "5000"})


def test_stored_values_follow_the_bounds_of_today(config: BrokerConfig) -> None:
    assert group_values(config, {})[SESSION] == 50_000
    assert group_values(config, {SESSION: "1000"})[SESSION] == 45_000


def test_description_has_the_source_of_each_value(config: BrokerConfig) -> None:
    rows = {row.name: (row.value, row.source) for row in describe_group(config, {SESSION: "55000"})}
    assert rows[SESSION] == ("55000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert rows[HEARTBEAT] == ("5000", ConfigSource.DEFAULT_CONFIG)
