"""Settings of single consumer groups of KIP-848.

setting                            default                                 bounds
consumer.session.timeout.ms        group.consumer.session.timeout.ms       group.consumer.min.session... and max...
consumer.heartbeat.interval.ms     group.consumer.heartbeat.interval.ms    the same of the heartbeat interval
consumer.assignment.interval.ms    group.consumer.assignment.interval.ms   0 to 15 s
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pylogbroker.config.broker_config import BrokerConfig
from pylogbroker.config.descriptions import Description, SynonymValue
from pylogbroker.config.setting import ConfigSource, Importance, Mode, Setting
from pylogbroker.config.value_kinds import INT, Value
from pylogbroker.errors import ConfigError
from pylogbroker.java.text import is_digits

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
_ASSIGNMENT_INTERVAL_MS_MAX: Final = 15_000


def _setting(name: str, default: int, doc: str) -> Setting:
    return Setting(name, INT, default, Importance.MEDIUM, doc, mode=Mode.CLUSTER_WIDE)


GROUP: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for setting in (
        _setting(SESSION_TIMEOUT, 45_000, "Time without a heartbeat after which a member of the group is removed."),
        _setting(HEARTBEAT_INTERVAL, 5_000, "Time between two heartbeats of a member of the group."),
        _setting(ASSIGNMENT_INTERVAL, 1_000, "Minimum time between two assignments of the group."),
    )
}


def group_defaults(config: BrokerConfig) -> dict[str, int]:
    return {
        SESSION_TIMEOUT: config.group_consumer_session_timeout_ms,
        HEARTBEAT_INTERVAL: config.group_consumer_heartbeat_interval_ms,
        ASSIGNMENT_INTERVAL: config.group_consumer_assignment_interval_ms,
    }


def _bounds(config: BrokerConfig) -> dict[str, tuple[int, int]]:
    return {
        SESSION_TIMEOUT: (config.group_consumer_min_session_timeout_ms, config.group_consumer_max_session_timeout_ms),
        HEARTBEAT_INTERVAL: (
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        ASSIGNMENT_INTERVAL: (0, _ASSIGNMENT_INTERVAL_MS_MAX),
    }


def check_group(config: BrokerConfig, settings: Mapping[str, str]) -> None:
    """Raise ConfigError unless the settings are known and within the broker's bounds."""
    bounds = _bounds(config)
    for name, text in settings.items():
        if name not in GROUP:
            raise ConfigError(f"{name} is no setting of a group; there are {', '.join(GROUP)}")
        low, high = bounds[name]
        if not (is_digits(text) and low <= int(text) <= high):
            raise ConfigError(f"{name}: {text!r} is not accepted; expected {low} to {high}")
    values = group_values(config, settings)
    if values[HEARTBEAT_INTERVAL] >= values[SESSION_TIMEOUT]:
        raise ConfigError(
            f"{HEARTBEAT_INTERVAL}: {values[HEARTBEAT_INTERVAL]} is not accepted;"
            f" expected less than {SESSION_TIMEOUT}, {values[SESSION_TIMEOUT]}"
        )


def group_values(config: BrokerConfig, settings: Mapping[str, str]) -> dict[str, int]:
    """Return the values in force: stored ones, which the broker's bounds of today limit, and the broker's."""
    values = group_defaults(config)
    bounds = _bounds(config)
    for name, text in settings.items():
        if name in values and is_digits(text):
            low, high = bounds[name]
            values[name] = min(max(int(text), low), high)
    return values


def describe_group(config: BrokerConfig, settings: Mapping[str, str]) -> list[Description]:
    values = group_values(config, settings)
    return [_describe(setting, values[name], name in settings) for name, setting in sorted(GROUP.items())]


def _describe(setting: Setting, value: Value, is_own: bool) -> Description:
    source = ConfigSource.DYNAMIC_GROUP_CONFIG if is_own else ConfigSource.DEFAULT_CONFIG
    return Description.of(setting, value, source, (SynonymValue(setting.name, str(value), source),))
