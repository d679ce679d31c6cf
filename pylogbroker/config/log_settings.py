"""The broker's settings for topics and their logs."""

from __future__ import annotations

from pylogbroker.config import formats
from pylogbroker.config.setting import BY_SYNONYM, Synonym, cluster_wide, fixed, rows_of
from pylogbroker.config.topic_settings import (
    CLEANUP,
    COMPRESSION,
    DELETE_POLICIES,
    FORMAT,
    GZIP_LEVEL,
    LZ4_LEVEL,
    TIMESTAMP_TYPE,
    ZSTD_LEVEL,
)
from pylogbroker.config.value_kinds import (
    BOOLEAN,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    NEW_PARTITIONS,
    TEXT,
    ConfigType,
    TypedKind,
    at_least,
)
from pylogbroker.config.values import Values

_HOUR, _MINUTE = 3_600_000, 60_000


def _check_retention(text: str) -> None:
    if int(text) < -1 or int(text) == 0:
        raise ValueError("neither a time nor -1")


def _retention(type_: ConfigType) -> TypedKind[int]:
    most = INT_MAX if type_ is ConfigType.INT else LONG_MAX
    return TypedKind[int](type_, check=_check_retention, words=f"a whole number from 1 to {most}, or -1 for ever")


class LogRows(Values):
    __slots__ = ()

    # topics
    num_partitions = fixed(
        "num.partitions",
        NEW_PARTITIONS,
        1,
        "medium",
        "Number of partitions of a topic that is created without a number.",
    )
    max_partitions = cluster_wide(
        "max.partitions",
        at_least(1),
        100_000,
        "low",
        "Maximum number of partitions of the broker; each takes some kilobytes of memory. Requests that would exceed "
        "it are rejected, except for the broker's own topics. Not a setting of Kafka.",
    )
    default_replication_factor = fixed(
        "default.replication.factor",
        INT,
        1,
        "medium",
        "Number of replicas of a topic that is created without a number.",
    )
    min_insync_replicas = cluster_wide(
        "min.insync.replicas",
        at_least(1),
        1,
        "high",
        "Number of in-sync replicas required for a produce request with acks=all.",
    )
    auto_create_topics_enable = fixed(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "high",
        "Whether a missing topic is created when a client asks for it.",
    )
    delete_topic_enable = fixed("delete.topic.enable", BOOLEAN, True, "high", "Whether topics can be deleted.")
    unclean_leader_election_enable = cluster_wide(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "high",
        "Whether a replica out of sync may become the leader if no other is left. Records are lost then.",
    )
    # directories
    log_dir = fixed("log.dir", TEXT, "data", "high", "Log directory, if log.dirs is not set.")
    log_dirs_text = fixed(
        "log.dirs",
        TEXT,
        BY_SYNONYM,
        "high",
        "Log directories, separated by commas. A new partition goes to the directory with the fewest.",
        synonyms=(Synonym("log.dir"),),
    )
    metadata_log_dir = fixed(
        "metadata.log.dir",
        TEXT,
        None,
        "high",
        "Directory of the embedded coordination file, which a broker needs to start; by default the first of log.dirs. "
        "A member of a cluster of KRaft controllers keeps its copy of their metadata there.",
    )
    metadata_log_max_record_bytes_between_snapshots = fixed(
        "metadata.log.max.record.bytes.between.snapshots",
        at_least(1, LONG),
        20 << 20,
        "high",
        "Bytes of records in the copy of the KRaft controllers' metadata after which a snapshot replaces them.",
    )
    metadata_log_max_snapshot_interval_ms = fixed(
        "metadata.log.max.snapshot.interval.ms",
        at_least(0, LONG),
        _HOUR,
        "high",
        "Time after which a snapshot replaces records in the copy of the KRaft controllers' metadata; 0 for never.",
    )
    metadata_log_segment_bytes = fixed(
        "metadata.log.segment.bytes",
        at_least(8 << 20),
        1 << 30,
        "high",
        "Size at which a segment of the copy of the KRaft controllers' metadata is full.",
    )
    # batches
    message_max_bytes = cluster_wide(
        "message.max.bytes",
        at_least(0),
        1_048_588,
        "high",
        "Largest batch, in bytes as sent, compressed or not.",
    )
    compression_type = cluster_wide(
        "compression.type",
        COMPRESSION,
        "producer",
        "high",
        "Compression of batches on disk; `producer` keeps the producer's.",
    )
    compression_gzip_level = cluster_wide(
        "compression.gzip.level", GZIP_LEVEL, -1, "medium", "Gzip level for compression by the broker."
    )
    compression_lz4_level = cluster_wide(
        "compression.lz4.level", LZ4_LEVEL, 9, "medium", "LZ4 level for compression by the broker."
    )
    compression_zstd_level = cluster_wide(
        "compression.zstd.level", ZSTD_LEVEL, 3, "medium", "Zstd level for compression by the broker."
    )
    log_message_format_version = fixed(
        "log.message.format.version",
        FORMAT,
        formats.NEWEST,
        "medium",
        "Kafka release whose message format topics are written in.",
    )
    log_message_downconversion_enable = cluster_wide(
        "log.message.downconversion.enable",
        BOOLEAN,
        True,
        "low",
        "Whether records are converted for consumers that know only older message formats.",
    )
    log_message_timestamp_type = cluster_wide(
        "log.message.timestamp.type",
        TIMESTAMP_TYPE,
        "CreateTime",
        "medium",
        "Timestamps of records: the producer's (CreateTime) or the broker's (LogAppendTime).",
    )
    log_message_timestamp_before_max_ms = cluster_wide(
        "log.message.timestamp.before.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "Maximum time by which a record's timestamp may be before the broker's clock.",
    )
    log_message_timestamp_after_max_ms = cluster_wide(
        "log.message.timestamp.after.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "Maximum time by which a record's timestamp may be after the broker's clock.",
    )
    log_message_timestamp_difference_max_ms = cluster_wide(
        "log.message.timestamp.difference.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "Older setting for both limits of timestamps.",
    )
    # segments
    log_segment_bytes = cluster_wide(
        "log.segment.bytes", at_least(14), 1_073_741_824, "high", "Size at which a segment is full."
    )
    log_roll_ms = cluster_wide(
        "log.roll.ms",
        TypedKind[int](ConfigType.LONG, low=1),
        BY_SYNONYM,
        "high",
        "Age at which a segment is full; by default log.roll.hours.",
        synonyms=(Synonym("log.roll.hours", _HOUR),),
    )
    log_roll_hours = fixed("log.roll.hours", at_least(1), 168, "high", "Age at which a segment is full.")
    log_roll_jitter_ms = cluster_wide(
        "log.roll.jitter.ms",
        at_least(0, LONG),
        BY_SYNONYM,
        "high",
        "Maximum random time subtracted from that age; by default log.roll.jitter.hours.",
        synonyms=(Synonym("log.roll.jitter.hours", _HOUR),),
    )
    log_roll_jitter_hours = fixed(
        "log.roll.jitter.hours", at_least(0), 0, "high", "Maximum random time subtracted from log.roll.hours."
    )
    log_index_size_max_bytes = cluster_wide(
        "log.index.size.max.bytes", at_least(4), 10_485_760, "medium", "Maximum size of an index."
    )
    log_index_interval_bytes = cluster_wide(
        "log.index.interval.bytes",
        at_least(0),
        4096,
        "medium",
        "Bytes of batches between two entries of the offset index.",
    )
    log_preallocate = cluster_wide(
        "log.preallocate",
        BOOLEAN,
        False,
        "medium",
        "Whether the file of a new segment gets its full size on disk at once.",
    )
    log_segment_delete_delay_ms = cluster_wide(
        "log.segment.delete.delay.ms",
        at_least(0, LONG),
        60_000,
        "high",
        "Time for which the files of a removed segment stay on disk, for reads in progress.",
    )
    # retention
    log_cleanup_policy = cluster_wide(
        "log.cleanup.policy",
        CLEANUP,
        ("delete",),
        "medium",
        "Handling of old data: `delete` by time and size, `compact` by key, or both.",
    )
    log_delete_policies = cluster_wide(
        "log.delete.policies",
        LIST,
        DELETE_POLICIES,
        "medium",
        "Delete policies, built-in or from plugins, for topics whose cleanup policy includes `delete`. A segment is "
        "removed when one of them names it.",
    )
    log_retention_ms = cluster_wide(
        "log.retention.ms",
        _retention(ConfigType.LONG),
        BY_SYNONYM,
        "high",
        "Time for which data is kept; by default log.retention.minutes.",
        synonyms=(Synonym("log.retention.minutes", _MINUTE), Synonym("log.retention.hours", _HOUR)),
    )
    log_retention_minutes = fixed(
        "log.retention.minutes",
        _retention(ConfigType.INT),
        BY_SYNONYM,
        "high",
        "Time for which data is kept; by default log.retention.hours.",
        synonyms=(Synonym("log.retention.hours", 60),),
    )
    log_retention_hours = fixed(
        "log.retention.hours", _retention(ConfigType.INT), 168, "high", "Time for which data is kept."
    )
    log_retention_bytes = cluster_wide(
        "log.retention.bytes",
        LONG,
        -1,
        "high",
        "Size of a partition above which its oldest segments are removed; -1: no limit.",
    )
    log_retention_check_interval_ms = fixed(
        "log.retention.check.interval.ms",
        at_least(1, LONG),
        300_000,
        "medium",
        "Time between two searches for segments to remove.",
    )
    log_local_retention_ms = cluster_wide(
        "log.local.retention.ms",
        at_least(-2, LONG),
        -2,
        "medium",
        "Time for which a segment of an archived topic stays on the local disk; -2: the whole retention.",
    )
    log_local_retention_bytes = cluster_wide(
        "log.local.retention.bytes",
        at_least(-2, LONG),
        -2,
        "medium",
        "Bytes of an archived partition that stay on the local disk; -2: the whole retention.",
    )
    log_remote_copy_lag_ms = cluster_wide(
        "log.remote.copy.lag.ms",
        at_least(-1, LONG),
        0,
        "medium",
        "Age of its newest record at which a sealed segment of an archived topic is copied to the remote storage; 0: "
        "at once; -1: the local retention. A segment is also copied when log.remote.copy.lag.bytes says so.",
    )
    log_remote_copy_lag_bytes = cluster_wide(
        "log.remote.copy.lag.bytes",
        at_least(-1, LONG),
        -1,
        "medium",
        "Bytes behind a sealed segment of an archived topic at which it is copied to the remote storage; 0: at once; "
        "-1: the local retention. A segment is also copied when log.remote.copy.lag.ms says so.",
    )
    # to disk
    log_flush_interval_messages = cluster_wide(
        "log.flush.interval.messages",
        at_least(1, LONG),
        LONG_MAX,
        "high",
        "Number of records after which a log is synced to disk. With 1, no record is acknowledged before it is on "
        "disk.",
    )
    log_flush_interval_ms = cluster_wide(
        "log.flush.interval.ms",
        LONG,
        BY_SYNONYM,
        "high",
        "Time after which a record is synced to disk; by default log.flush.scheduler.interval.ms.",
        synonyms=(Synonym("log.flush.scheduler.interval.ms"),),
    )
    log_flush_scheduler_interval_ms = fixed(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        "high",
        "Time between two searches for records to sync.",
    )
    log_flush_offset_checkpoint_interval_ms = fixed(
        "log.flush.offset.checkpoint.interval.ms",
        at_least(0),
        60_000,
        "high",
        "Time between two checkpoints of the recovery points: the offsets up to which logs are on disk.",
    )
    replica_high_watermark_checkpoint_interval_ms = fixed(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        "high",
        "Time between two checkpoints of the high watermarks.",
    )
    num_recovery_threads_per_data_dir = cluster_wide(
        "num.recovery.threads.per.data.dir",
        at_least(1),
        1,
        "high",
        "Number of threads that open the logs of one directory at the start and close them at the end.",
    )


LOG_SETTINGS = rows_of(LogRows)
