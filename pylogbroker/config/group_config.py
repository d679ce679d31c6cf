"""Settings of single groups: consumer groups (KIP-848), share groups (KIP-932) and Kafka Streams (KIP-1071).

setting                                       default                                    bounds
consumer.session.timeout.ms                   group.consumer.session.timeout.ms          group.consumer.min... to max...
consumer.heartbeat.interval.ms                group.consumer.heartbeat.interval.ms       the same of the interval
consumer.assignment.interval.ms               group.consumer.assignment.interval.ms      0 to 15 s
share.session.timeout.ms                      group.share.session.timeout.ms             group.share.min... to max...
share.heartbeat.interval.ms                   group.share.heartbeat.interval.ms          the same of the interval
share.assignment.interval.ms                  group.share.assignment.interval.ms         the same of this interval
share.record.lock.duration.ms                 group.share.record.lock.duration.ms        the same of the duration
share.delivery.count.limit                    group.share.delivery.count.limit           the same of the limit
share.partition.max.record.locks              group.share.partition.max.record.locks     the same of the locks
share.auto.offset.reset                       latest                                     earliest, by_duration:PT1H
share.isolation.level                         read_uncommitted                           read_committed
share.renew.acknowledge.enable                true
streams.session.timeout.ms                    group.streams.session.timeout.ms           group.streams.min... to max...
streams.heartbeat.interval.ms                 group.streams.heartbeat.interval.ms        the same of the interval
streams.assignment.interval.ms                group.streams.assignment.interval.ms       the same of this interval
streams.initial.rebalance.delay.ms            group.streams.initial.rebalance.delay.ms   at least 0
streams.num.standby.replicas                  group.streams.num.standby.replicas         0 to group.streams.max...
streams.num.warmup.replicas                   group.streams.num.warmup.replicas          0 to group.streams.max...
streams.task.offset.interval.ms               group.streams.task.offset.interval.ms      at least group.streams.min...
streams.acceptable.recovery.lag               group.streams.acceptable.recovery.lag      at least 0
streams.rack.aware.assignment.tags            group.streams.rack.aware.assignment.tags
streams.assignor.name                         sticky, the only one
streams.assignor.offload.enable               true
errors.deadletterqueue.topic.name             empty: there is no dead letter topic       ...topic.name.prefix
errors.deadletterqueue.copy.record.enable     false
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from pylogbroker.config.broker_config import BrokerConfig
from pylogbroker.config.descriptions import Description, SynonymValue
from pylogbroker.config.setting import ConfigSource, Importance, Mode, Setting
from pylogbroker.config.value_kinds import BOOLEAN, INT, INT_MAX, LIST, LONG, TEXT, Value, ValueKind, one_of, render
from pylogbroker.config.values import Values
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.java.duration import milliseconds_of
from pylogbroker.metadata.topic_names import check_name

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
SHARE_SESSION_TIMEOUT: Final = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
SHARE_ASSIGNMENT_INTERVAL: Final = "share.assignment.interval.ms"
SHARE_LOCK_DURATION: Final = "share.record.lock.duration.ms"
SHARE_DELIVERY_LIMIT: Final = "share.delivery.count.limit"
SHARE_LOCKS_MAX: Final = "share.partition.max.record.locks"
SHARE_OFFSET_RESET: Final = "share.auto.offset.reset"
SHARE_ISOLATION: Final = "share.isolation.level"
SHARE_RENEWAL: Final = "share.renew.acknowledge.enable"
STREAMS_SESSION_TIMEOUT: Final = "streams.session.timeout.ms"
STREAMS_HEARTBEAT_INTERVAL: Final = "streams.heartbeat.interval.ms"
STREAMS_ASSIGNMENT_INTERVAL: Final = "streams.assignment.interval.ms"
STREAMS_INITIAL_DELAY: Final = "streams.initial.rebalance.delay.ms"
STREAMS_STANDBYS: Final = "streams.num.standby.replicas"
STREAMS_WARMUPS: Final = "streams.num.warmup.replicas"
STREAMS_OFFSET_INTERVAL: Final = "streams.task.offset.interval.ms"
STREAMS_RECOVERY_LAG: Final = "streams.acceptable.recovery.lag"
STREAMS_TAGS: Final = "streams.rack.aware.assignment.tags"
STREAMS_ASSIGNOR: Final = "streams.assignor.name"
STREAMS_OFFLOAD: Final = "streams.assignor.offload.enable"
STREAMS_ASSIGNOR_DEFAULT: Final = "sticky"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
DEAD_LETTER_COPY: Final = "errors.deadletterqueue.copy.record.enable"

BY_DURATION: Final = "by_duration:"
"""Start of a value of `share.auto.offset.reset`, before a duration of ISO 8601."""
_ASSIGNMENT_INTERVAL_MS_MAX: Final = 15_000
_Bounds = Callable[[BrokerConfig], tuple[int, int]]


def _check_reset(text: str) -> None:
    if text not in ("earliest", "latest") and not (
        text.startswith(BY_DURATION) and milliseconds_of(text.removeprefix(BY_DURATION)) is not None
    ):
        raise ValueError("no strategy")


OFFSET_RESET: Final = attrs.evolve(
    TEXT,
    check=_check_reset,
    words="earliest, latest, or by_duration: with a duration like PT1H30M, of ISO 8601",
)


@attrs.frozen
class _Row:
    setting: Setting
    default: Callable[[BrokerConfig], Value]
    bounds: _Bounds | None = None

    def parse(self, config: BrokerConfig, text: str) -> Value:
        """Return the value; raise ConfigError unless it is within the broker's bounds."""
        name, kind = self.setting.name, self.setting.kind
        if self.bounds is not None:
            low, high = self.bounds(config)
            kind = attrs.evolve(kind, low=low, high=high)
        try:
            return kind.parse(text)
        except ValueError:
            raise ConfigError(f"{name}: {text!r} is not accepted; expected {kind.expected}") from None

    def in_force(self, config: BrokerConfig, text: str) -> Value:
        """Return a stored value, which the broker's bounds of today limit; the default if it cannot be read."""
        try:
            value = self.setting.kind.parse(text)
        except ValueError:
            return self.default(config)
        if self.bounds is None or not isinstance(value, int):
            return value
        low, high = self.bounds(config)
        return min(max(value, low), high)


def _number(name: str, default: int, doc: str, of: Callable[[BrokerConfig], int], bounds: _Bounds) -> _Row:
    return _Row(Setting(name, INT, default, Importance.MEDIUM, doc, mode=Mode.CLUSTER_WIDE), of, bounds)


def _constant(name: str, kind: ValueKind, default: Value, doc: str) -> _Row:
    return _Row(Setting(name, kind, default, Importance.MEDIUM, doc, mode=Mode.CLUSTER_WIDE), lambda config: default)


_OF_CONSUMERS: Final = (
    _number(
        SESSION_TIMEOUT,
        45_000,
        "Time without a heartbeat after which a member of the consumer group is removed.",
        lambda config: config.group_consumer_session_timeout_ms,
        lambda config: (config.group_consumer_min_session_timeout_ms, config.group_consumer_max_session_timeout_ms),
    ),
    _number(
        HEARTBEAT_INTERVAL,
        5_000,
        "Time between two heartbeats of a member of the consumer group.",
        lambda config: config.group_consumer_heartbeat_interval_ms,
        lambda config: (
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
    ),
    _number(
        ASSIGNMENT_INTERVAL,
        1_000,
        "Minimum time between two assignments of the consumer group.",
        lambda config: config.group_consumer_assignment_interval_ms,
        lambda config: (0, _ASSIGNMENT_INTERVAL_MS_MAX),
    ),
)
_OF_SHARE_GROUPS: Final = (
    _number(
        SHARE_SESSION_TIMEOUT,
        45_000,
        "Time without a heartbeat after which a member of the share group is removed.",
        lambda config: config.group_share_session_timeout_ms,
        lambda config: (config.group_share_min_session_timeout_ms, config.group_share_max_session_timeout_ms),
    ),
    _number(
        SHARE_HEARTBEAT_INTERVAL,
        5_000,
        "Time between two heartbeats of a member of the share group.",
        lambda config: config.group_share_heartbeat_interval_ms,
        lambda config: (config.group_share_min_heartbeat_interval_ms, config.group_share_max_heartbeat_interval_ms),
    ),
    _number(
        SHARE_ASSIGNMENT_INTERVAL,
        1_000,
        "Minimum time between two assignments of the share group.",
        lambda config: config.group_share_assignment_interval_ms,
        lambda config: (config.group_share_min_assignment_interval_ms, config.group_share_max_assignment_interval_ms),
    ),
    _number(
        SHARE_LOCK_DURATION,
        30_000,
        "Time after which a record that a consumer has acquired and not acknowledged is available again.",
        lambda config: config.group_share_record_lock_duration_ms,
        lambda config: (config.group_share_min_record_lock_duration_ms, config.group_share_max_record_lock_duration_ms),
    ),
    _number(
        SHARE_DELIVERY_LIMIT,
        5,
        "Number of deliveries after which a record that is not acknowledged is archived.",
        lambda config: config.group_share_delivery_count_limit,
        lambda config: (config.group_share_min_delivery_count_limit, config.group_share_max_delivery_count_limit),
    ),
    _number(
        SHARE_LOCKS_MAX,
        2_000,
        "Maximum number of records of one partition that the share group has in flight.",
        lambda config: config.group_share_partition_max_record_locks,
        lambda config: (
            config.group_share_min_partition_max_record_locks,
            config.group_share_max_partition_max_record_locks,
        ),
    ),
    _constant(SHARE_OFFSET_RESET, OFFSET_RESET, "latest", "Where the share group begins to read a partition."),
    _constant(
        SHARE_ISOLATION,
        one_of("read_committed", "read_uncommitted"),
        "read_uncommitted",
        "With read_committed, the share group does not get records of transactions that are open or aborted.",
    ),
    _constant(SHARE_RENEWAL, BOOLEAN, True, "Whether consumers may renew their locks of records."),
    _constant(
        DEAD_LETTER_TOPIC, TEXT, "", "Topic for records that are rejected or were delivered too often; empty: none."
    ),
    _constant(DEAD_LETTER_COPY, BOOLEAN, False, "Whether a dead letter has the key, value and headers of its record."),
)
_OF_STREAMS_GROUPS: Final = (
    _number(
        STREAMS_SESSION_TIMEOUT,
        45_000,
        "Time without a heartbeat after which a member of the group is removed.",
        lambda config: config.group_streams_session_timeout_ms,
        lambda config: (config.group_streams_min_session_timeout_ms, config.group_streams_max_session_timeout_ms),
    ),
    _number(
        STREAMS_HEARTBEAT_INTERVAL,
        5_000,
        "Time between two heartbeats of a member of the group.",
        lambda config: config.group_streams_heartbeat_interval_ms,
        lambda config: (config.group_streams_min_heartbeat_interval_ms, config.group_streams_max_heartbeat_interval_ms),
    ),
    _number(
        STREAMS_ASSIGNMENT_INTERVAL,
        1_000,
        "Minimum time between two assignments of the group.",
        lambda config: config.group_streams_assignment_interval_ms,
        lambda config: (
            config.group_streams_min_assignment_interval_ms,
            config.group_streams_max_assignment_interval_ms,
        ),
    ),
    _number(
        STREAMS_INITIAL_DELAY,
        3_000,
        "Time that the first assignment of the group waits for more members.",
        lambda config: config.group_streams_initial_rebalance_delay_ms,
        lambda config: (0, INT_MAX),
    ),
    _number(
        STREAMS_STANDBYS,
        0,
        "Number of copies of each task's state on other instances.",
        lambda config: config.group_streams_num_standby_replicas,
        lambda config: (0, config.group_streams_max_standby_replicas),
    ),
    _number(
        STREAMS_WARMUPS,
        2,
        "Maximum number of tasks whose state is copied before they move; as in Kafka 4.4, none is assigned.",
        lambda config: config.group_streams_num_warmup_replicas,
        lambda config: (0, config.group_streams_max_warmup_replicas),
    ),
    _number(
        STREAMS_OFFSET_INTERVAL,
        60_000,
        "Time between two reports of the changelog offsets of a member's tasks.",
        lambda config: config.group_streams_task_offset_interval_ms,
        lambda config: (config.group_streams_min_task_offset_interval_ms, INT_MAX),
    ),
    _Row(
        Setting(
            STREAMS_RECOVERY_LAG,
            attrs.evolve(LONG, low=0),
            10_000,
            Importance.MEDIUM,
            "Lag in records below which the copy of a task's state counts as complete.",
            mode=Mode.CLUSTER_WIDE,
        ),
        lambda config: config.group_streams_acceptable_recovery_lag,
    ),
    _Row(
        Setting(
            STREAMS_TAGS,
            LIST,
            (),
            Importance.LOW,
            "Keys of client tags; copies of a task's state are spread over instances with different values.",
            mode=Mode.CLUSTER_WIDE,
        ),
        lambda config: config.group_streams_rack_aware_assignment_tags,
    ),
    _constant(STREAMS_ASSIGNOR, one_of(STREAMS_ASSIGNOR_DEFAULT), STREAMS_ASSIGNOR_DEFAULT, "Assignor of the group."),
    _constant(STREAMS_OFFLOAD, BOOLEAN, True, "Whether long assignments may be computed in a thread: they always are."),
)
_ROWS: Final[Mapping[str, _Row]] = {
    row.setting.name: row for row in (*_OF_CONSUMERS, *_OF_SHARE_GROUPS, *_OF_STREAMS_GROUPS)
}
GROUP: Final[Mapping[str, Setting]] = {name: row.setting for name, row in _ROWS.items()}
_TIMES: Final = (
    (HEARTBEAT_INTERVAL, SESSION_TIMEOUT),
    (SHARE_HEARTBEAT_INTERVAL, SHARE_SESSION_TIMEOUT),
    (STREAMS_HEARTBEAT_INTERVAL, STREAMS_SESSION_TIMEOUT),
)


def group_defaults(config: BrokerConfig) -> dict[str, Value]:
    return {name: row.default(config) for name, row in _ROWS.items()}


def check_group(config: BrokerConfig, settings: Mapping[str, str]) -> None:
    """Raise ConfigError unless the settings are known and within the broker's bounds."""
    for name, text in settings.items():
        row = _ROWS.get(name)
        if row is None:
            raise ConfigError(f"{name} is no setting of a group; there are {', '.join(GROUP)}")
        row.parse(config, text)
    _check_dead_letter_topic(config, settings.get(DEAD_LETTER_TOPIC, ""))
    values = group_values(config, settings)
    for interval, timeout in _TIMES:
        if values.integer(interval) >= values.integer(timeout):
            raise ConfigError(
                f"{interval}: {values.integer(interval)} is not accepted;"
                f" expected less than {timeout}, {values.integer(timeout)}"
            )


def _check_dead_letter_topic(config: BrokerConfig, topic: str) -> None:
    """Raise ConfigError for a topic that cannot have dead letters."""
    if not topic:
        return
    prefix = config.errors_deadletterqueue_topic_name_prefix
    try:
        check_name(topic)
    except KafkaError as error:
        raise ConfigError(f"{DEAD_LETTER_TOPIC}: {topic!r} is not accepted: {error.detail}") from None
    if topic.startswith("__"):
        raise ConfigError(f"{DEAD_LETTER_TOPIC}: {topic!r} is not accepted; names with '__' are of internal topics")
    if not topic.startswith(prefix):
        raise ConfigError(
            f"{DEAD_LETTER_TOPIC}: {topic!r} is not accepted; expected a name that begins with {prefix!r},"
            " by errors.deadletterqueue.topic.name.prefix"
        )


def group_values(config: BrokerConfig, settings: Mapping[str, str]) -> Values:
    """Return a group's values in force: stored ones, which the broker's bounds of today limit, and the broker's."""
    values = group_defaults(config)
    for name, text in settings.items():
        if name in _ROWS:
            values[name] = _ROWS[name].in_force(config, text)
    return Values(values)


def describe_group(config: BrokerConfig, settings: Mapping[str, str]) -> list[Description]:
    values = group_values(config, settings)
    return [_describe(setting, values[name], name in settings) for name, setting in sorted(GROUP.items())]


def _describe(setting: Setting, value: Value, is_own: bool) -> Description:
    source = ConfigSource.DYNAMIC_GROUP_CONFIG if is_own else ConfigSource.DEFAULT_CONFIG
    return Description.of(setting, value, source, (SynonymValue(setting.name, render(value), source),))
