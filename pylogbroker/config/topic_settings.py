"""The settings of a topic."""

from __future__ import annotations

import re

import attrs

from pylogbroker.config import formats
from pylogbroker.config.setting import Importance, Scope, Synonym, TypedSetting, rows_of
from pylogbroker.config.value_kinds import (
    BOOLEAN,
    LIST,
    LONG,
    LONG_MAX,
    ConfigType,
    T,
    TypedKind,
    any_of,
    at_least,
    between,
    one_of,
)
from pylogbroker.config.values import Values
from pylogbroker.java.text import split_list, trim

_THROTTLED = re.compile(r"([0-9]+:[0-9]+)?")
_HOUR, _MINUTE, _DAY = 3_600_000, 60_000, 86_400_000


_BY_TOPIC = "io.confluent.kafka.serializers.subject.TopicNameStrategy"
_STRATEGY_NAME = re.compile(r"(io\.confluent\.kafka\.serializers\.subject\.)?(Topic|Record|TopicRecord)NameStrategy")


def _check_strategy(text: str) -> None:
    if _STRATEGY_NAME.fullmatch(text) is None:
        raise ValueError("not a strategy")


def _check_throttled(text: str) -> None:
    items = split_list(trim(text))
    if items[:1] != ("*",) and not all(map(_THROTTLED.fullmatch, items)):
        raise ValueError("not a list of replicas")


COMPRESSION = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP = attrs.evolve(any_of("compact", "delete"), required=False, words="any of compact, delete, or nothing")
DELETE_POLICIES = ("record-time", "size")
TIMESTAMP_TYPE = one_of("CreateTime", "LogAppendTime")
GZIP_LEVEL = between(1, 9, also=-1)
LZ4_LEVEL = between(1, 17)
ZSTD_LEVEL = between(-131072, 22)
RATIO = between(0, 1, TypedKind[float](ConfigType.DOUBLE))
FORMAT = TypedKind[str](
    ConfigType.STRING,
    check=formats.magic_of,
    words="a Kafka release from 0.8.0 on, like 0.9.0, 0.10.2, 0.11.0 or 3.0-IV1",
)
_TOPIC_FORMAT = TypedKind[str](
    ConfigType.STRING,
    check=formats.check_topic_format,
    words="a Kafka release from 0.7 on, like 0.7, 0.9.0, 0.10.2, 0.11.0 or 3.0-IV1",
)
_SUBJECT_STRATEGY = TypedKind[str](
    ConfigType.STRING,
    check=_check_strategy,
    words="TopicNameStrategy, RecordNameStrategy or TopicRecordNameStrategy",
)
_REPLICAS = TypedKind[tuple[str, ...]](
    ConfigType.LIST, check=_check_throttled, words="partition:broker pairs separated by commas, or *"
)


def _topic(
    name: str,
    kind: TypedKind[T],
    default: T,
    synonyms: str,
    doc: str,
    importance: Importance = Importance.MEDIUM,
) -> TypedSetting[T]:
    """Return a row; `synonyms` has broker settings by falling priority, `name*factor` if units differ."""
    parsed = [item.partition("*") for item in synonyms.split()]
    return TypedSetting(
        name=name,
        kind=kind,
        default=default,
        importance=importance,
        doc=doc,
        scope=Scope.TOPIC,
        synonyms=tuple(Synonym(broker_name, int(factor or 1)) for broker_name, _, factor in parsed),
    )


class TopicRows(Values):
    __slots__ = ()

    cleanup_policy = _topic(
        "cleanup.policy",
        CLEANUP,
        ("delete",),
        "log.cleanup.policy",
        "Handling of old data: `delete` removes segments that exceed retention.ms or retention.bytes, `compact` keeps "
        "the newest record of each key; both may be combined.",
    )
    confluent_key_schema_validation = _topic(
        "confluent.key.schema.validation",
        BOOLEAN,
        False,
        "",
        "Whether keys must name a schema of the broker's schema registry, as confluent.value.schema.validation for "
        "values.",
    )
    confluent_key_subject_name_strategy = _topic(
        "confluent.key.subject.name.strategy",
        _SUBJECT_STRATEGY,
        _BY_TOPIC,
        "",
        "Subject in which schemas of keys must be registered, as confluent.value.subject.name.strategy for values.",
    )
    confluent_value_schema_validation = _topic(
        "confluent.value.schema.validation",
        BOOLEAN,
        False,
        "",
        "Whether values must name a schema of the broker's schema registry that is registered for the topic; others "
        "get INVALID_RECORD. A null is valid. It needs schema.registry.listeners.",
    )
    confluent_value_subject_name_strategy = _topic(
        "confluent.value.subject.name.strategy",
        _SUBJECT_STRATEGY,
        _BY_TOPIC,
        "",
        "Subject in which schemas of values must be registered: TopicNameStrategy (TOPIC-value), RecordNameStrategy "
        "(the name of the record) or TopicRecordNameStrategy (both), also with the package of Confluent's classes.",
    )
    schema_validation_content = _topic(
        "schema.validation.content",
        BOOLEAN,
        False,
        "",
        "Whether keys and values that are validated must fit their schemas, too: they are decoded.",
    )
    compression_gzip_level = _topic(
        "compression.gzip.level",
        GZIP_LEVEL,
        -1,
        "compression.gzip.level",
        "Gzip level for compression by the broker; -1 is gzip's default.",
    )
    compression_lz4_level = _topic(
        "compression.lz4.level",
        LZ4_LEVEL,
        9,
        "compression.lz4.level",
        "LZ4 level for compression by the broker.",
    )
    compression_type = _topic(
        "compression.type",
        COMPRESSION,
        "producer",
        "compression.type",
        "Compression of batches on disk. `producer` keeps the producer's at no cost; with any other value, the broker "
        "recompresses batches that differ.",
    )
    compression_zstd_level = _topic(
        "compression.zstd.level",
        ZSTD_LEVEL,
        3,
        "compression.zstd.level",
        "Zstd level for compression by the broker.",
    )
    delete_policies = _topic(
        "delete.policies",
        LIST,
        DELETE_POLICIES,
        "log.delete.policies",
        "Delete policies that name the segments for `delete` to remove. `record-time` and `modification-time` use "
        "retention.ms, `size` uses retention.bytes. `archive-parquet:/directory` uses both, and writes records to "
        "Parquet files first. Plugins may add others, with an argument after a colon: `name:argument`.",
    )
    delete_retention_ms = _topic(
        "delete.retention.ms",
        at_least(0, LONG),
        _DAY,
        "log.cleaner.delete.retention.ms",
        "Time for which a compacted topic keeps tombstones, for readers that began before.",
    )
    errors_deadletterqueue_group_enable = _topic(
        "errors.deadletterqueue.group.enable",
        BOOLEAN,
        False,
        "",
        "Whether share groups may store dead letters in the topic.",
    )
    file_delete_delay_ms = _topic(
        "file.delete.delay.ms",
        at_least(0, LONG),
        60_000,
        "log.segment.delete.delay.ms",
        "Time for which the files of a removed segment stay on disk, for reads in progress.",
    )
    flush_messages = _topic(
        "flush.messages",
        at_least(1, LONG),
        LONG_MAX,
        "log.flush.interval.messages",
        "Number of records after which the log is synced to disk. With 1, no record is acknowledged before it is on "
        "disk. By default the operating system decides.",
    )
    flush_ms = _topic(
        "flush.ms",
        at_least(0, LONG),
        LONG_MAX,
        "log.flush.interval.ms log.flush.scheduler.interval.ms",
        "Time after which a record is synced to disk.",
    )
    follower_replication_throttled_replicas = _topic(
        "follower.replication.throttled.replicas",
        _REPLICAS,
        (),
        "",
        "Replicas whose fetches are throttled by the follower.",
    )
    index_interval_bytes = _topic(
        "index.interval.bytes",
        at_least(0),
        4096,
        "log.index.interval.bytes",
        "Bytes of batches between two entries of the offset index.",
    )
    leader_replication_throttled_replicas = _topic(
        "leader.replication.throttled.replicas",
        _REPLICAS,
        (),
        "",
        "Replicas whose fetches are throttled by the leader.",
    )
    local_retention_bytes = _topic(
        "local.retention.bytes",
        at_least(-2, LONG),
        -2,
        "log.local.retention.bytes",
        "Bytes of an archived partition that stay on the local disk; -2: retention.bytes.",
    )
    local_retention_ms = _topic(
        "local.retention.ms",
        at_least(-2, LONG),
        -2,
        "log.local.retention.ms",
        "Time for which a segment of an archived topic stays on the local disk; -2: retention.ms.",
    )
    max_compaction_lag_ms = _topic(
        "max.compaction.lag.ms",
        at_least(1, LONG),
        LONG_MAX,
        "log.cleaner.max.compaction.lag.ms",
        "Maximum time before a record of a compacted topic is compacted.",
    )
    max_message_bytes = _topic(
        "max.message.bytes",
        at_least(0),
        1_048_588,
        "message.max.bytes",
        "Largest batch, in bytes as sent, compressed or not.",
    )
    message_downconversion_enable = _topic(
        "message.downconversion.enable",
        BOOLEAN,
        True,
        "log.message.downconversion.enable",
        "Whether records are converted for consumers that know only older message formats. If not, they get "
        "UNSUPPORTED_VERSION.",
        Importance.LOW,
    )
    message_format_version = _topic(
        "message.format.version",
        _TOPIC_FORMAT,
        formats.NEWEST,
        "log.message.format.version",
        "Kafka release whose message format the topic is written in; records in other formats are converted. With "
        "0.7, offsets are byte positions; it can only be set when a topic is created.",
    )
    message_timestamp_after_max_ms = _topic(
        "message.timestamp.after.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "log.message.timestamp.after.max.ms",
        "Maximum time by which a record's timestamp may be after the broker's clock; other batches are rejected "
        "(CreateTime only).",
    )
    message_timestamp_before_max_ms = _topic(
        "message.timestamp.before.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "log.message.timestamp.before.max.ms",
        "Maximum time by which a record's timestamp may be before the broker's clock; other batches are rejected "
        "(CreateTime only).",
    )
    message_timestamp_difference_max_ms = _topic(
        "message.timestamp.difference.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "log.message.timestamp.difference.max.ms",
        "Older setting for both limits of timestamps, for a limit that is not set itself.",
    )
    message_timestamp_type = _topic(
        "message.timestamp.type",
        TIMESTAMP_TYPE,
        "CreateTime",
        "log.message.timestamp.type",
        "Timestamps of records: the producer's (CreateTime) or the broker's time of the append (LogAppendTime).",
    )
    min_cleanable_dirty_ratio = _topic(
        "min.cleanable.dirty.ratio",
        RATIO,
        0.5,
        "log.cleaner.min.cleanable.ratio",
        "Share of a compacted log that must be new before it is compacted again.",
    )
    min_compaction_lag_ms = _topic(
        "min.compaction.lag.ms",
        at_least(0, LONG),
        0,
        "log.cleaner.min.compaction.lag.ms",
        "Minimum time before a record of a compacted topic is compacted.",
    )
    min_insync_replicas = _topic(
        "min.insync.replicas",
        at_least(1),
        1,
        "min.insync.replicas",
        "Number of in-sync replicas required for a produce request with acks=all.",
    )
    preallocate = _topic(
        "preallocate",
        BOOLEAN,
        False,
        "log.preallocate",
        "Whether the file of a new segment gets its full size on disk at once.",
    )
    remote_copy_lag_bytes = _topic(
        "remote.copy.lag.bytes",
        at_least(-1, LONG),
        -1,
        "log.remote.copy.lag.bytes",
        "Bytes behind a sealed segment of an archived topic at which it is copied to the remote storage; 0: at once; "
        "-1: local.retention.bytes. A segment is also copied when remote.copy.lag.ms says so.",
    )
    remote_copy_lag_ms = _topic(
        "remote.copy.lag.ms",
        at_least(-1, LONG),
        0,
        "log.remote.copy.lag.ms",
        "Age of its newest record at which a sealed segment of an archived topic is copied to the remote storage; 0: "
        "at once; -1: local.retention.ms. A segment is also copied when remote.copy.lag.bytes says so.",
    )
    remote_log_copy_disable = _topic(
        "remote.log.copy.disable",
        BOOLEAN,
        False,
        "",
        "Whether no more segments are copied to the remote storage; those that are there can still be read.",
    )
    remote_log_delete_on_disable = _topic(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        "",
        "Whether the records in the remote storage are deleted when remote.storage.enable is set to false.",
    )
    remote_storage_enable = _topic(
        "remote.storage.enable",
        BOOLEAN,
        False,
        "",
        "Whether the topic is archived: sealed segments are copied to the remote storage of the brokers, and deleted "
        "from the local disk by local.retention.ms and local.retention.bytes.",
    )
    retention_bytes = _topic(
        "retention.bytes",
        LONG,
        -1,
        "log.retention.bytes",
        "Size of a partition above which its oldest segments are removed (cleanup.policy `delete`); -1: no limit.",
    )
    retention_ms = _topic(
        "retention.ms",
        at_least(-1, LONG),
        7 * _DAY,
        f"log.retention.ms log.retention.minutes*{_MINUTE} log.retention.hours*{_HOUR}",
        "Time for which a segment is kept after its newest record (cleanup.policy `delete`); -1: forever.",
    )
    segment_bytes = _topic(
        "segment.bytes",
        at_least(14),
        1_073_741_824,
        "log.segment.bytes",
        "Size at which a new segment begins. Retention removes whole segments.",
    )
    segment_index_bytes = _topic(
        "segment.index.bytes",
        at_least(4),
        10_485_760,
        "log.index.size.max.bytes",
        "Size of an index at which a new segment begins.",
    )
    segment_jitter_ms = _topic(
        "segment.jitter.ms",
        at_least(0, LONG),
        0,
        f"log.roll.jitter.ms log.roll.jitter.hours*{_HOUR}",
        "Maximum random time subtracted from segment.ms, so that not all segments roll at the same time.",
    )
    segment_ms = _topic(
        "segment.ms",
        at_least(1, LONG),
        7 * _DAY,
        f"log.roll.ms log.roll.hours*{_HOUR}",
        "Age at which a new segment begins even if the current one is not full.",
    )
    unclean_leader_election_enable = _topic(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "unclean.leader.election.enable",
        "Whether a replica out of sync may become the leader if no other is left. Records are lost then.",
    )


TOPIC_SETTINGS = rows_of(TopicRows)
