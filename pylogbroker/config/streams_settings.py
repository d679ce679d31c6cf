"""The broker's settings for groups of Kafka Streams (KIP-1071): defaults of what a group may set, and their bounds."""

from __future__ import annotations

from pylogbroker.config.setting import cluster_wide, fixed, rows_of
from pylogbroker.config.value_kinds import LIST, LONG, at_least
from pylogbroker.config.values import Values


class StreamsRows(Values):
    __slots__ = ()

    group_streams_session_timeout_ms = fixed(
        "group.streams.session.timeout.ms",
        at_least(1),
        45_000,
        "medium",
        "Time without a heartbeat after which a member of a group of Kafka Streams is removed.",
    )
    group_streams_min_session_timeout_ms = fixed(
        "group.streams.min.session.timeout.ms",
        at_least(1),
        45_000,
        "medium",
        "Minimum session timeout of a group of Kafka Streams.",
    )
    group_streams_max_session_timeout_ms = fixed(
        "group.streams.max.session.timeout.ms",
        at_least(1),
        60_000,
        "medium",
        "Maximum session timeout of a group of Kafka Streams.",
    )
    group_streams_heartbeat_interval_ms = fixed(
        "group.streams.heartbeat.interval.ms",
        at_least(1),
        5_000,
        "medium",
        "Time between two heartbeats of a member of a group of Kafka Streams.",
    )
    group_streams_min_heartbeat_interval_ms = fixed(
        "group.streams.min.heartbeat.interval.ms",
        at_least(1),
        5_000,
        "medium",
        "Minimum heartbeat interval of a group of Kafka Streams.",
    )
    group_streams_max_heartbeat_interval_ms = fixed(
        "group.streams.max.heartbeat.interval.ms",
        at_least(1),
        15_000,
        "medium",
        "Maximum heartbeat interval of a group of Kafka Streams.",
    )
    group_streams_assignment_interval_ms = cluster_wide(
        "group.streams.assignment.interval.ms",
        at_least(0),
        1_000,
        "medium",
        "Minimum time between two assignments of a group of Kafka Streams.",
    )
    group_streams_min_assignment_interval_ms = fixed(
        "group.streams.min.assignment.interval.ms",
        at_least(0),
        0,
        "medium",
        "Minimum of the time between two assignments of a group of Kafka Streams.",
    )
    group_streams_max_assignment_interval_ms = fixed(
        "group.streams.max.assignment.interval.ms",
        at_least(0),
        15_000,
        "medium",
        "Maximum of the time between two assignments of a group of Kafka Streams.",
    )
    group_streams_initial_rebalance_delay_ms = fixed(
        "group.streams.initial.rebalance.delay.ms",
        at_least(0),
        3_000,
        "medium",
        "Time that the first assignment of a group of Kafka Streams waits for more members.",
    )
    group_streams_max_size = fixed(
        "group.streams.max.size",
        at_least(1),
        2**31 - 1,
        "medium",
        "Maximum number of members of a group of Kafka Streams, which are threads of instances.",
    )
    group_streams_num_standby_replicas = fixed(
        "group.streams.num.standby.replicas",
        at_least(0),
        0,
        "medium",
        "Number of copies of each task's state on other instances of Kafka Streams.",
    )
    group_streams_max_standby_replicas = fixed(
        "group.streams.max.standby.replicas",
        at_least(0),
        2,
        "medium",
        "Maximum number of copies of a task's state that a group of Kafka Streams may set.",
    )
    group_streams_num_warmup_replicas = fixed(
        "group.streams.num.warmup.replicas",
        at_least(0),
        2,
        "medium",
        "Maximum number of tasks whose state is copied before they move; as in Kafka 4.4, none is assigned.",
        internal=True,
    )
    group_streams_max_warmup_replicas = fixed(
        "group.streams.max.warmup.replicas",
        at_least(0),
        20,
        "medium",
        "Maximum of the warm-up replicas that a group of Kafka Streams may set.",
        internal=True,
    )
    group_streams_rack_aware_assignment_tags = fixed(
        "group.streams.rack.aware.assignment.tags",
        LIST,
        (),
        "low",
        "Keys of client tags; copies of a task's state are spread over instances with different values.",
    )
    group_streams_task_offset_interval_ms = fixed(
        "group.streams.task.offset.interval.ms",
        at_least(1),
        60_000,
        "medium",
        "Time between two reports of the changelog offsets of a member's tasks.",
        internal=True,
    )
    group_streams_min_task_offset_interval_ms = fixed(
        "group.streams.min.task.offset.interval.ms",
        at_least(1),
        15_000,
        "medium",
        "Minimum of the time between two reports of changelog offsets.",
        internal=True,
    )
    group_streams_acceptable_recovery_lag = fixed(
        "group.streams.acceptable.recovery.lag",
        at_least(0, LONG),
        10_000,
        "medium",
        "Lag in records below which the copy of a task's state counts as complete.",
        internal=True,
    )


STREAMS_SETTINGS = rows_of(StreamsRows)
