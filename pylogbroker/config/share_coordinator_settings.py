"""The broker's settings for `__share_group_state`, which has the states of share groups (KIP-932)."""

from __future__ import annotations

from pylogbroker.config.setting import cluster_wide, fixed, rows_of
from pylogbroker.config.value_kinds import BOOLEAN, INT_MAX, NEW_PARTITIONS, SHORT, at_least, between
from pylogbroker.config.values import Values


class ShareCoordinatorRows(Values):
    __slots__ = ()

    share_coordinator_state_topic_num_partitions = fixed(
        "share.coordinator.state.topic.num.partitions",
        NEW_PARTITIONS,
        50,
        "high",
        "Number of partitions with which __share_group_state is created; it cannot be changed later.",
    )
    share_coordinator_state_topic_replication_factor = fixed(
        "share.coordinator.state.topic.replication.factor",
        at_least(1, SHORT),
        3,
        "high",
        "Number of replicas of __share_group_state, at most one per broker.",
    )
    share_coordinator_state_topic_min_isr = fixed(
        "share.coordinator.state.topic.min.isr",
        at_least(1, SHORT),
        2,
        "high",
        "Number of in-sync replicas of __share_group_state required for a write, at most its number of replicas.",
    )
    share_coordinator_state_topic_segment_bytes = fixed(
        "share.coordinator.state.topic.segment.bytes",
        at_least(1),
        104_857_600,
        "high",
        "Segment size of __share_group_state.",
    )
    share_coordinator_state_topic_compression_codec = fixed(
        "share.coordinator.state.topic.compression.codec",
        between(0, 4),
        0,
        "high",
        "Compression of __share_group_state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
    share_coordinator_load_buffer_size = fixed(
        "share.coordinator.load.buffer.size",
        at_least(1),
        5_242_880,
        "high",
        "Bytes of __share_group_state read at a time when states of share groups are loaded.",
    )
    share_coordinator_write_timeout_ms = fixed(
        "share.coordinator.write.timeout.ms",
        at_least(1),
        5_000,
        "high",
        "Time for the replication of a record in __share_group_state.",
    )
    share_coordinator_state_topic_prune_interval_ms = fixed(
        "share.coordinator.state.topic.prune.interval.ms",
        at_least(1),
        300_000,
        "low",
        "Time between two deletions of records in __share_group_state that are not needed any more.",
        internal=True,
    )
    share_coordinator_snapshot_update_records_per_snapshot = fixed(
        "share.coordinator.snapshot.update.records.per.snapshot",
        between(0, 500),
        500,
        "medium",
        "Number of changes of a share partition's state that are stored until all of it is stored again.",
    )
    errors_deadletterqueue_auto_create_topics_enable = cluster_wide(
        "errors.deadletterqueue.auto.create.topics.enable",
        BOOLEAN,
        False,
        "medium",
        "Whether a missing dead letter topic of a share group is created.",
    )
    group_share_max_share_sessions = fixed(
        "group.share.max.share.sessions",
        at_least(1),
        2_000,
        "medium",
        "Maximum number of share sessions: members of share groups that fetch from this broker.",
    )
    share_fetch_max_fetch_records = fixed(
        "share.fetch.max.fetch.records",
        at_least(1),
        INT_MAX,
        "high",
        "Maximum number of records that a share fetch acquires, whatever the member asks for.",
    )


SHARE_COORDINATOR_SETTINGS = rows_of(ShareCoordinatorRows)
