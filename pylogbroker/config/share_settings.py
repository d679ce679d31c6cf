"""The broker's settings for share groups (KIP-932): defaults of what a group may set for itself, and their bounds."""

from __future__ import annotations

from pylogbroker.config.setting import cluster_wide, fixed, rows_of
from pylogbroker.config.value_kinds import TEXT, at_least, between
from pylogbroker.config.values import Values


class ShareRows(Values):
    __slots__ = ()

    group_share_session_timeout_ms = fixed(
        "group.share.session.timeout.ms",
        at_least(1),
        45_000,
        "medium",
        "Time without a heartbeat after which a member of a share group is removed.",
    )
    group_share_min_session_timeout_ms = fixed(
        "group.share.min.session.timeout.ms",
        at_least(1),
        45_000,
        "medium",
        "Minimum session timeout of a share group.",
    )
    group_share_max_session_timeout_ms = fixed(
        "group.share.max.session.timeout.ms",
        at_least(1),
        60_000,
        "medium",
        "Maximum session timeout of a share group.",
    )
    group_share_heartbeat_interval_ms = fixed(
        "group.share.heartbeat.interval.ms",
        at_least(1),
        5_000,
        "medium",
        "Time between two heartbeats of a member of a share group.",
    )
    group_share_min_heartbeat_interval_ms = fixed(
        "group.share.min.heartbeat.interval.ms",
        at_least(1),
        5_000,
        "medium",
        "Minimum heartbeat interval of a share group.",
    )
    group_share_max_heartbeat_interval_ms = fixed(
        "group.share.max.heartbeat.interval.ms",
        at_least(1),
        15_000,
        "medium",
        "Maximum heartbeat interval of a share group.",
    )
    group_share_assignment_interval_ms = cluster_wide(
        "group.share.assignment.interval.ms",
        at_least(0),
        1_000,
        "medium",
        "Minimum time between two assignments of a share group.",
    )
    group_share_min_assignment_interval_ms = fixed(
        "group.share.min.assignment.interval.ms",
        at_least(0),
        0,
        "medium",
        "Minimum of the time between two assignments of a share group.",
    )
    group_share_max_assignment_interval_ms = fixed(
        "group.share.max.assignment.interval.ms",
        at_least(0),
        15_000,
        "medium",
        "Maximum of the time between two assignments of a share group.",
    )
    group_share_record_lock_duration_ms = fixed(
        "group.share.record.lock.duration.ms",
        between(1_000, 3_600_000),
        30_000,
        "medium",
        "Time after which a record that a consumer has acquired and not acknowledged is available again.",
    )
    group_share_min_record_lock_duration_ms = fixed(
        "group.share.min.record.lock.duration.ms",
        between(1_000, 30_000),
        15_000,
        "medium",
        "Minimum record lock duration of a share group.",
    )
    group_share_max_record_lock_duration_ms = fixed(
        "group.share.max.record.lock.duration.ms",
        between(30_000, 3_600_000),
        60_000,
        "medium",
        "Maximum record lock duration of a share group.",
    )
    group_share_delivery_count_limit = fixed(
        "group.share.delivery.count.limit",
        between(2, 10),
        5,
        "medium",
        "Number of deliveries after which a record that is not acknowledged is archived.",
    )
    group_share_min_delivery_count_limit = fixed(
        "group.share.min.delivery.count.limit",
        between(2, 5),
        2,
        "medium",
        "Minimum delivery count limit of a share group.",
    )
    group_share_max_delivery_count_limit = fixed(
        "group.share.max.delivery.count.limit",
        between(5, 25),
        10,
        "medium",
        "Maximum delivery count limit of a share group.",
    )
    group_share_partition_max_record_locks = fixed(
        "group.share.partition.max.record.locks",
        between(100, 10_000),
        2_000,
        "medium",
        "Maximum number of records of one partition that a share group has in flight.",
    )
    group_share_min_partition_max_record_locks = fixed(
        "group.share.min.partition.max.record.locks",
        between(100, 2_000),
        100,
        "medium",
        "Minimum of the records in flight that a share group may set.",
    )
    group_share_max_partition_max_record_locks = fixed(
        "group.share.max.partition.max.record.locks",
        between(2_000, 10_000),
        4_000,
        "medium",
        "Maximum of the records in flight that a share group may set.",
    )
    group_share_max_size = fixed(
        "group.share.max.size", between(1, 1_000), 200, "medium", "Maximum number of members of a share group."
    )
    group_share_initialize_retry_interval_ms = fixed(
        "group.share.initialize.retry.interval.ms",
        at_least(1),
        30_000,
        "low",
        "Time after which the states of partitions that a share group could not initialize are initialized again.",
        internal=True,
    )
    errors_deadletterqueue_topic_name_prefix = cluster_wide(
        "errors.deadletterqueue.topic.name.prefix",
        TEXT,
        "dlq.",
        "medium",
        "How names of dead letter topics of share groups begin; empty: in any way.",
    )


SHARE_SETTINGS = rows_of(ShareRows)
