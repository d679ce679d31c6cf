"""The broker's settings for topics and their logs; many are the defaults of a topic's own settings."""

from __future__ import annotations

from pylogbroker.config import formats
from pylogbroker.config.setting import Setting, Synonym, cluster_wide, fixed
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
    ValueKind,
    at_least,
)

_HOUR, _MINUTE = 3_600_000, 60_000


def _check_retention(text: str) -> None:
    if int(text) < -1 or int(text) == 0:
        raise ValueError("neither a time nor -1")


def _retention(type_: ConfigType) -> ValueKind:
    most = INT_MAX if type_ is ConfigType.INT else LONG_MAX
    return ValueKind(type_, check=_check_retention, wanted=f"a whole number from 1 to {most}, or -1 for ever")


LOG_SETTINGS: tuple[Setting, ...] = (
    # topics
    fixed(
        "num.partitions",
        NEW_PARTITIONS,
        1,
        "medium",
        "How many partitions a topic gets when nobody says a number.",
    ),
    cluster_wide(
        "max.partitions",
        at_least(1),
        100_000,
        "low",
        "The most partitions of topics that the broker holds, each of which takes it some kilobytes of memory. A "
        "request that would exceed it is refused; the broker's own topics are not. Not a setting of Kafka.",
    ),
    fixed(
        "default.replication.factor",
        INT,
        1,
        "medium",
        "How many replicas a partition gets when nobody says a number.",
    ),
    cluster_wide(
        "min.insync.replicas",
        at_least(1),
        1,
        "high",
        "How many replicas must be in sync for a produce request with acks=all to be accepted.",
    ),
    fixed(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "high",
        "Whether a topic that is asked for and does not exist is created.",
    ),
    fixed("delete.topic.enable", BOOLEAN, True, "high", "Whether topics can be deleted."),
    cluster_wide(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "high",
        "Whether a replica that lags may become the leader when no other is left, losing records.",
    ),
    # directories
    fixed("log.dir", TEXT, "data", "high", "The directory of the data, where log.dirs is not set."),
    fixed(
        "log.dirs",
        TEXT,
        None,
        "high",
        "The directories of the data, separated by commas; a new partition goes where the fewest are.",
        synonyms=(Synonym("log.dir"),),
    ),
    fixed(
        "metadata.log.dir",
        TEXT,
        None,
        "high",
        "The directory of the embedded coordination's file, without which no broker starts; if it is not set, the "
        "first of log.dirs.",
    ),
    # what is accepted, and how it is written
    cluster_wide(
        "message.max.bytes",
        at_least(0),
        1_048_588,
        "high",
        "The largest batch that is accepted, in bytes as it travels, compressed or not.",
    ),
    cluster_wide(
        "compression.type",
        COMPRESSION,
        "producer",
        "high",
        "How batches are compressed on disk; `producer` keeps what the producer chose.",
    ),
    cluster_wide("compression.gzip.level", GZIP_LEVEL, -1, "medium", "How hard gzip tries when the broker compresses."),
    cluster_wide("compression.lz4.level", LZ4_LEVEL, 9, "medium", "How hard lz4 tries when the broker compresses."),
    cluster_wide("compression.zstd.level", ZSTD_LEVEL, 3, "medium", "How hard zstd tries when the broker compresses."),
    fixed(
        "log.message.format.version",
        FORMAT,
        formats.NEWEST,
        "medium",
        "The release whose message format topics are written in.",
    ),
    cluster_wide(
        "log.message.downconversion.enable",
        BOOLEAN,
        True,
        "low",
        "Whether consumers that know only older message formats are served, by conversion.",
    ),
    cluster_wide(
        "log.message.timestamp.type",
        TIMESTAMP_TYPE,
        "CreateTime",
        "medium",
        "Whether a record's timestamp is the producer's (CreateTime) or the broker's (LogAppendTime).",
    ),
    cluster_wide(
        "log.message.timestamp.before.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "How far a record's timestamp may lie behind the broker's clock.",
    ),
    cluster_wide(
        "log.message.timestamp.after.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "How far a record's timestamp may lie ahead of the broker's clock.",
    ),
    cluster_wide(
        "log.message.timestamp.difference.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "The older setting of both bounds on timestamps at once.",
    ),
    # segments
    cluster_wide("log.segment.bytes", at_least(14), 1_073_741_824, "high", "The size at which a segment is full."),
    cluster_wide(
        "log.roll.ms",
        ValueKind(ConfigType.LONG, low=1),
        None,
        "high",
        "The age at which a segment is full; if it is not set, log.roll.hours.",
        synonyms=(Synonym("log.roll.hours", _HOUR),),
    ),
    fixed("log.roll.hours", at_least(1), 168, "high", "The age at which a segment is full."),
    cluster_wide(
        "log.roll.jitter.ms",
        at_least(0, LONG),
        None,
        "high",
        "The most that is taken off that age at random; if it is not set, log.roll.jitter.hours.",
        synonyms=(Synonym("log.roll.jitter.hours", _HOUR),),
    ),
    fixed("log.roll.jitter.hours", at_least(0), 0, "high", "The most that is taken off log.roll.hours at random."),
    cluster_wide("log.index.size.max.bytes", at_least(4), 10_485_760, "medium", "The largest size of an index."),
    cluster_wide(
        "log.index.interval.bytes",
        at_least(0),
        4096,
        "medium",
        "How many bytes of batches lie between two entries of the offset index.",
    ),
    cluster_wide(
        "log.preallocate", BOOLEAN, False, "medium", "Whether a new segment's file gets its full size on disk at once."
    ),
    cluster_wide(
        "log.segment.delete.delay.ms",
        at_least(0, LONG),
        60_000,
        "high",
        "How long a removed segment's files stay on disk, for reads that are under way.",
    ),
    # retention
    cluster_wide(
        "log.cleanup.policy",
        CLEANUP,
        ("delete",),
        "medium",
        "What happens to old data: `delete` by time and size, `compact` by key, or both.",
    ),
    cluster_wide(
        "log.delete.policies",
        LIST,
        DELETE_POLICIES,
        "medium",
        "The delete policies of topics whose cleanup policy has `delete`, the built-in ones or those of plugins: a "
        "segment goes when one of them names it.",
    ),
    cluster_wide(
        "log.retention.ms",
        _retention(ConfigType.LONG),
        None,
        "high",
        "How long data is kept; if it is not set, log.retention.minutes.",
        synonyms=(Synonym("log.retention.minutes", _MINUTE), Synonym("log.retention.hours", _HOUR)),
    ),
    fixed(
        "log.retention.minutes",
        _retention(ConfigType.INT),
        None,
        "high",
        "How long data is kept; if it is not set, log.retention.hours.",
        synonyms=(Synonym("log.retention.hours", 60),),
    ),
    fixed("log.retention.hours", _retention(ConfigType.INT), 168, "high", "How long data is kept."),
    cluster_wide(
        "log.retention.bytes",
        LONG,
        -1,
        "high",
        "How large a partition may grow before its oldest segments are removed; -1 is no limit.",
    ),
    fixed(
        "log.retention.check.interval.ms",
        at_least(1, LONG),
        300_000,
        "medium",
        "How often it is looked for segments to remove.",
    ),
    fixed(
        "log.initial.task.delay.ms",
        at_least(0, LONG),
        30_000,
        "low",
        "How long after the start the log's periodic work begins.",
        internal=True,
    ),
    cluster_wide(
        "log.local.retention.ms",
        at_least(-2, LONG),
        -2,
        "medium",
        "How long a segment stays on local disk under tiered storage; -2 is the whole retention.",
    ),
    cluster_wide(
        "log.local.retention.bytes",
        at_least(-2, LONG),
        -2,
        "medium",
        "How much of a partition stays on local disk under tiered storage; -2 is the whole retention.",
    ),
    # to disk
    cluster_wide(
        "log.flush.interval.messages",
        at_least(1, LONG),
        LONG_MAX,
        "high",
        "After how many records a log is forced to disk; 1 acknowledges nothing that is not on disk.",
    ),
    cluster_wide(
        "log.flush.interval.ms",
        LONG,
        None,
        "high",
        "After how much time a record is forced to disk; if it is not set, log.flush.scheduler.interval.ms.",
        synonyms=(Synonym("log.flush.scheduler.interval.ms"),),
    ),
    fixed(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        "high",
        "How often it is looked for records that must be forced to disk.",
    ),
    fixed(
        "log.flush.offset.checkpoint.interval.ms",
        at_least(0),
        60_000,
        "high",
        "How often recovery points are written down: the offsets up to which logs are on disk.",
    ),
    fixed(
        "log.flush.start.offset.checkpoint.interval.ms",
        at_least(0),
        60_000,
        "high",
        "How often the logs' start offsets are written down.",
    ),
    fixed(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        "high",
        "How often the high watermarks are written down.",
    ),
    cluster_wide(
        "num.recovery.threads.per.data.dir",
        at_least(1),
        1,
        "high",
        "How many threads open the logs of one directory at the start and close them at the end.",
    ),
)
