"""The broker's settings for consumer groups, their offsets, and producers."""

from __future__ import annotations

from pylogbroker.config.setting import Setting, cluster_wide, fixed
from pylogbroker.config.value_kinds import INT, INT_MAX, LONG, NEW_PARTITIONS, SHORT, at_least, between

CLIENT_SETTINGS: tuple[Setting, ...] = (
    # groups
    fixed("group.min.session.timeout.ms", INT, 6000, "medium", "The shortest session timeout a member may ask for."),
    fixed(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        "medium",
        "The longest session timeout a member may ask for.",
    ),
    fixed(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "medium",
        "How long an empty group waits for more members after its first one joined.",
    ),
    fixed("group.max.size", at_least(1), INT_MAX, "medium", "The most members that a group may have."),
    # committed offsets
    fixed("offset.metadata.max.bytes", INT, 4096, "high", "The most metadata that may come with a committed offset."),
    fixed(
        "offsets.topic.num.partitions",
        NEW_PARTITIONS,
        50,
        "high",
        "How many partitions __consumer_offsets gets. Never change it once groups have committed.",
    ),
    fixed(
        "offsets.topic.replication.factor",
        at_least(1, SHORT),
        3,
        "high",
        "How many replicas __consumer_offsets gets, though no more than there are brokers.",
    ),
    fixed("offsets.topic.segment.bytes", at_least(1), 104_857_600, "high", "The segment size of __consumer_offsets."),
    fixed(
        "offsets.topic.compression.codec",
        between(0, 4),
        0,
        "high",
        "The compression of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    ),
    fixed(
        "offsets.load.buffer.size",
        at_least(1),
        5_242_880,
        "high",
        "How many bytes of __consumer_offsets are read at a time when groups are loaded.",
    ),
    fixed(
        "offsets.commit.timeout.ms",
        at_least(1),
        5000,
        "high",
        "How long a commit may wait for the replicas of __consumer_offsets.",
    ),
    fixed(
        "offsets.retention.minutes",
        at_least(1),
        10_080,
        "high",
        "How long offsets are kept after their group has lost its last member.",
    ),
    fixed(
        "offsets.retention.check.interval.ms",
        at_least(1, LONG),
        600_000,
        "high",
        "How often it is looked for offsets to forget.",
    ),
    # producers
    cluster_wide(
        "producer.id.expiration.ms",
        at_least(1),
        86_400_000,
        "low",
        "After how long without a batch the state of an idempotent producer is forgotten.",
    ),
    fixed(
        "producer.id.expiration.check.interval.ms",
        at_least(1),
        600_000,
        "low",
        "How often it is looked for producers to forget.",
        internal=True,
    ),
)
