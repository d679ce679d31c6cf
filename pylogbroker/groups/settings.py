"""Settings of the group coordinator."""

from __future__ import annotations

import attrs

from pylogbroker.config import BrokerConfig

_MS_PER_MINUTE = 60_000


@attrs.frozen
class ConsumerGroupSettings:
    """Settings of the groups of KIP-848, without the times that a group may have for itself."""

    max_size: int = 2**31 - 1  # group.consumer.max.size
    expression_refresh_interval_ms: int = 600_000  # group.consumer.regex.refresh.interval.ms
    migration_policy: str = "bidirectional"  # group.consumer.migration.policy


@attrs.frozen
class ShareGroupSettings:
    """Settings of share groups, without what a group may have for itself."""

    max_size: int = 200  # group.share.max.size
    initialize_retry_interval_ms: int = 30_000  # group.share.initialize.retry.interval.ms


@attrs.frozen
class StreamsGroupLimits:
    """Settings of groups of Kafka Streams, without what a group may have for itself."""

    max_size: int = 2**31 - 1  # group.streams.max.size


@attrs.frozen
class GroupSettings:
    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    max_size: int = 2**31 - 1  # group.max.size
    partitions: int = 50  # offsets.topic.num.partitions
    retention_ms: int = 10_080 * _MS_PER_MINUTE  # offsets.retention.minutes
    check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    max_metadata_bytes: int = 4_096  # offset.metadata.max.bytes
    consumer: ConsumerGroupSettings = ConsumerGroupSettings()
    share: ShareGroupSettings = ShareGroupSettings()
    streams: StreamsGroupLimits = StreamsGroupLimits()

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupSettings:
        return cls(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
            partitions=config.offsets_topic_num_partitions,
            retention_ms=config.offsets_retention_minutes * _MS_PER_MINUTE,
            check_interval_ms=config.offsets_retention_check_interval_ms,
            max_metadata_bytes=config.offset_metadata_max_bytes,
            consumer=ConsumerGroupSettings(
                config.group_consumer_max_size,
                config.group_consumer_regex_refresh_interval_ms,
                config.group_consumer_migration_policy,
            ),
            share=ShareGroupSettings(config.group_share_max_size, config.group_share_initialize_retry_interval_ms),
            streams=StreamsGroupLimits(config.group_streams_max_size),
        )
