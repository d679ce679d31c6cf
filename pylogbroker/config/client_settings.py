"""The broker's settings for consumer groups, offsets and producers."""

from __future__ import annotations

from pylogbroker.config.setting import cluster_wide, fixed, rows_of
from pylogbroker.config.value_kinds import INT, INT_MAX, LONG, NEW_PARTITIONS, SHORT, at_least, between
from pylogbroker.config.values import Values


class ClientRows(Values):
    __slots__ = ()

    # groups
    group_min_session_timeout_ms = fixed(
        "group.min.session.timeout.ms", INT, 6000, "medium", "Minimum session timeout of a member."
    )
    group_max_session_timeout_ms = fixed(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        "medium",
        "Maximum session timeout of a member.",
    )
    group_initial_rebalance_delay_ms = fixed(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "medium",
        "Time that an empty group waits for more members after the first one joined.",
    )
    group_max_size = fixed("group.max.size", at_least(1), INT_MAX, "medium", "Maximum number of members of a group.")
    # committed offsets
    offset_metadata_max_bytes = fixed(
        "offset.metadata.max.bytes", INT, 4096, "high", "Maximum bytes of metadata of a committed offset."
    )
    offsets_topic_num_partitions = fixed(
        "offsets.topic.num.partitions",
        NEW_PARTITIONS,
        50,
        "high",
        "Number of partitions with which __consumer_offsets is created; it cannot be changed later.",
    )
    offsets_topic_replication_factor = fixed(
        "offsets.topic.replication.factor",
        at_least(1, SHORT),
        3,
        "high",
        "Number of replicas of __consumer_offsets, at most one per broker.",
    )
    offsets_topic_segment_bytes = fixed(
        "offsets.topic.segment.bytes", at_least(1), 104_857_600, "high", "Segment size of __consumer_offsets."
    )
    offsets_topic_compression_codec = fixed(
        "offsets.topic.compression.codec",
        between(0, 4),
        0,
        "high",
        "Compression of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
    offsets_load_buffer_size = fixed(
        "offsets.load.buffer.size",
        at_least(1),
        5_242_880,
        "high",
        "Bytes of __consumer_offsets read at a time when groups are loaded.",
    )
    offsets_commit_timeout_ms = fixed(
        "offsets.commit.timeout.ms",
        at_least(1),
        5000,
        "high",
        "Maximum time that a commit waits for the replicas of __consumer_offsets.",
    )
    offsets_retention_minutes = fixed(
        "offsets.retention.minutes",
        at_least(1),
        10_080,
        "high",
        "Time for which offsets are kept after their group has lost its last member.",
    )
    offsets_retention_check_interval_ms = fixed(
        "offsets.retention.check.interval.ms",
        at_least(1, LONG),
        600_000,
        "high",
        "Time between two searches for expired offsets.",
    )
    # producers
    producer_id_expiration_ms = cluster_wide(
        "producer.id.expiration.ms",
        at_least(1),
        86_400_000,
        "low",
        "Time without a batch after which the state of an idempotent producer is removed.",
    )
    producer_id_expiration_check_interval_ms = fixed(
        "producer.id.expiration.check.interval.ms",
        at_least(1),
        600_000,
        "low",
        "Time between two searches for expired producers.",
        internal=True,
    )


CLIENT_SETTINGS = rows_of(ClientRows)
