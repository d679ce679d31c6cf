"""The broker's settings for consumer groups of KIP-848, whose assignments it computes."""

from __future__ import annotations

from pylogbroker.config.setting import fixed, rows_of
from pylogbroker.config.value_kinds import INT_MAX, LIST, any_of, at_least, one_of
from pylogbroker.config.values import Values


class GroupRows(Values):
    __slots__ = ()

    group_coordinator_rebalance_protocols = fixed(
        "group.coordinator.rebalance.protocols",
        any_of("classic", "consumer", "streams", "share"),
        ("classic", "consumer", "streams"),
        "medium",
        "Protocols of groups that are offered: classic always; consumer (KIP-848) and streams (KIP-1071) if they are "
        "named here and the features group.version and streams.version have level 1.",
    )
    group_consumer_session_timeout_ms = fixed(
        "group.consumer.session.timeout.ms",
        at_least(1),
        45_000,
        "medium",
        "Time without a heartbeat after which a member of a consumer group is removed.",
    )
    group_consumer_min_session_timeout_ms = fixed(
        "group.consumer.min.session.timeout.ms",
        at_least(1),
        45_000,
        "medium",
        "Minimum session timeout of a consumer group.",
    )
    group_consumer_max_session_timeout_ms = fixed(
        "group.consumer.max.session.timeout.ms",
        at_least(1),
        60_000,
        "medium",
        "Maximum session timeout of a consumer group.",
    )
    group_consumer_heartbeat_interval_ms = fixed(
        "group.consumer.heartbeat.interval.ms",
        at_least(1),
        5_000,
        "medium",
        "Time between two heartbeats of a member of a consumer group.",
    )
    group_consumer_min_heartbeat_interval_ms = fixed(
        "group.consumer.min.heartbeat.interval.ms",
        at_least(1),
        5_000,
        "medium",
        "Minimum heartbeat interval of a consumer group.",
    )
    group_consumer_max_heartbeat_interval_ms = fixed(
        "group.consumer.max.heartbeat.interval.ms",
        at_least(1),
        15_000,
        "medium",
        "Maximum heartbeat interval of a consumer group.",
    )
    group_consumer_assignment_interval_ms = fixed(
        "group.consumer.assignment.interval.ms",
        at_least(0),
        1_000,
        "medium",
        "Minimum time between two assignments of a consumer group.",
    )
    group_consumer_max_size = fixed(
        "group.consumer.max.size", at_least(1), INT_MAX, "medium", "Maximum number of members of a consumer group."
    )
    group_consumer_migration_policy = fixed(
        "group.consumer.migration.policy",
        one_of("bidirectional", "upgrade", "downgrade", "disabled"),
        "bidirectional",
        "medium",
        "Whether groups with members may change their protocol: from classic to consumer (upgrade), or back.",
    )
    group_consumer_assignors = fixed(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "medium",
        "Assignors of consumer groups, the default one first: uniform, range, and plugins by their names.",
    )
    group_consumer_regex_refresh_interval_ms = fixed(
        "group.consumer.regex.refresh.interval.ms",
        at_least(10_000),
        600_000,
        "medium",
        "Time after which a consumer group's regular expressions are matched with the topics again.",
        internal=True,
    )


GROUP_SETTINGS = rows_of(GroupRows)
