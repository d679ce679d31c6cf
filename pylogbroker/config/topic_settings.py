"""The settings of a topic, and the broker settings that give their defaults."""

from __future__ import annotations

import re

import attrs

from pylogbroker.config import formats
from pylogbroker.config.setting import Importance, Scope, Setting, Synonym
from pylogbroker.config.value_kinds import (
    BOOLEAN,
    LIST,
    LONG,
    LONG_MAX,
    ConfigType,
    Value,
    ValueKind,
    any_of,
    at_least,
    between,
    one_of,
)

_THROTTLED = re.compile(r"\*?|\d+:\d+(\s*,\s*\d+:\d+)*")
_HOUR, _MINUTE, _DAY = 3_600_000, 60_000, 86_400_000


def _check_throttled(text: str) -> None:
    if not _THROTTLED.fullmatch(text):
        raise ValueError("not a list of replicas")


def _check_not_tiered(text: str) -> None:
    if text.lower() != "false":
        raise ValueError("there is no tiered storage")


COMPRESSION = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP = attrs.evolve(any_of("compact", "delete"), required=False, wanted="any of compact, delete, or nothing")
DELETE_POLICIES = ("record-time", "size")
TIMESTAMP_TYPE = one_of("CreateTime", "LogAppendTime")
GZIP_LEVEL = between(1, 9, also=-1)
LZ4_LEVEL = between(1, 17)
ZSTD_LEVEL = between(-131072, 22)
RATIO = between(0, 1, ValueKind(ConfigType.DOUBLE))
FORMAT = ValueKind(
    ConfigType.STRING,
    check=formats.magic_of,
    wanted="a Kafka release from 0.8.0 on, like 0.9.0, 0.10.2, 0.11.0 or 3.0-IV1",
)
TOPIC_FORMAT = ValueKind(
    ConfigType.STRING,
    check=formats.check_topic_format,
    wanted="a Kafka release from 0.7 on, like 0.7, 0.9.0, 0.10.2, 0.11.0 or 3.0-IV1",
)
_REPLICAS = ValueKind(
    ConfigType.LIST, check=_check_throttled, wanted="partition:broker pairs separated by commas, or *"
)


def _topic(
    name: str,
    kind: ValueKind,
    default: Value,
    synonyms: str,
    doc: str,
    importance: Importance = Importance.MEDIUM,
) -> Setting:
    """A row; `synonyms` lists broker settings by falling priority, `name*factor` if the unit is another."""
    parsed = [item.partition("*") for item in synonyms.split()]
    return Setting(
        name=name,
        kind=kind,
        default=default,
        importance=importance,
        doc=doc,
        scope=Scope.TOPIC,
        synonyms=tuple(Synonym(broker_name, int(factor or 1)) for broker_name, _, factor in parsed),
    )


TOPIC_SETTINGS: tuple[Setting, ...] = (
    _topic(
        "cleanup.policy",
        CLEANUP,
        ("delete",),
        "log.cleanup.policy",
        "What happens to old data: `delete` removes segments that exceed retention.ms or retention.bytes, "
        "`compact` keeps the newest record of every key, and both together do both.",
    ),
    _topic(
        "compression.gzip.level",
        GZIP_LEVEL,
        -1,
        "compression.gzip.level",
        "How hard gzip tries when the broker compresses; -1 is gzip's own choice.",
    ),
    _topic(
        "compression.lz4.level",
        LZ4_LEVEL,
        9,
        "compression.lz4.level",
        "How hard lz4 tries when the broker compresses.",
    ),
    _topic(
        "compression.type",
        COMPRESSION,
        "producer",
        "compression.type",
        "How batches are compressed on disk. `producer` keeps what the producer chose and costs nothing; any "
        "other choice makes the broker compress again what comes in another way.",
    ),
    _topic(
        "compression.zstd.level",
        ZSTD_LEVEL,
        3,
        "compression.zstd.level",
        "How hard zstd tries when the broker compresses.",
    ),
    _topic(
        "delete.policies",
        LIST,
        DELETE_POLICIES,
        "log.delete.policies",
        "Which segments `delete` removes: those that one of these delete policies names. `record-time` and "
        "`modification-time` follow retention.ms, `size` follows retention.bytes; plugins may bring others, and take "
        "what stands behind a colon: `name:argument`.",
    ),
    _topic(
        "delete.retention.ms",
        at_least(0, LONG),
        _DAY,
        "log.cleaner.delete.retention.ms",
        "How long a compacted topic keeps the mark of a deleted key, for readers that began before.",
    ),
    _topic(
        "file.delete.delay.ms",
        at_least(0, LONG),
        60_000,
        "log.segment.delete.delay.ms",
        "How long a removed segment's files stay on disk, for reads that are under way.",
    ),
    _topic(
        "flush.messages",
        at_least(1, LONG),
        LONG_MAX,
        "log.flush.interval.messages",
        "After how many records the log is forced to disk. With 1, no record is acknowledged before it is on "
        "disk. The default leaves writing back to the operating system.",
    ),
    _topic(
        "flush.ms",
        at_least(0, LONG),
        LONG_MAX,
        "log.flush.interval.ms log.flush.scheduler.interval.ms",
        "After how much time a record that is not yet on disk is forced there.",
    ),
    _topic(
        "follower.replication.throttled.replicas",
        _REPLICAS,
        (),
        "",
        "The replicas whose fetching is throttled on the follower's side.",
    ),
    _topic(
        "index.interval.bytes",
        at_least(0),
        4096,
        "log.index.interval.bytes",
        "How many bytes of batches lie between two entries of the offset index.",
    ),
    _topic(
        "leader.replication.throttled.replicas",
        _REPLICAS,
        (),
        "",
        "The replicas whose fetching is throttled on the leader's side.",
    ),
    _topic(
        "local.retention.bytes",
        at_least(-2, LONG),
        -2,
        "log.local.retention.bytes",
        "How much of a partition stays on local disk under tiered storage; -2 is retention.bytes.",
    ),
    _topic(
        "local.retention.ms",
        at_least(-2, LONG),
        -2,
        "log.local.retention.ms",
        "How long a segment stays on local disk under tiered storage; -2 is retention.ms.",
    ),
    _topic(
        "max.compaction.lag.ms",
        at_least(1, LONG),
        LONG_MAX,
        "log.cleaner.max.compaction.lag.ms",
        "The longest time that a record of a compacted topic may wait for compaction.",
    ),
    _topic(
        "max.message.bytes",
        at_least(0),
        1_048_588,
        "message.max.bytes",
        "The largest batch that is accepted, in bytes as it travels, compressed or not.",
    ),
    _topic(
        "message.downconversion.enable",
        BOOLEAN,
        True,
        "log.message.downconversion.enable",
        "Whether consumers that know only older message formats are served, by conversion. If not, they are "
        "answered with UNSUPPORTED_VERSION.",
        Importance.LOW,
    ),
    _topic(
        "message.format.version",
        TOPIC_FORMAT,
        formats.NEWEST,
        "log.message.format.version",
        "The release whose message format the topic is written in. What comes in another format is converted. "
        "With 0.7, offsets are the positions of bytes; a topic is given that when it is created, or never.",
    ),
    _topic(
        "message.timestamp.after.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "log.message.timestamp.after.max.ms",
        "How far a record's timestamp may lie ahead of the broker's clock before the batch is refused "
        "(CreateTime only).",
    ),
    _topic(
        "message.timestamp.before.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "log.message.timestamp.before.max.ms",
        "How far a record's timestamp may lie behind the broker's clock before the batch is refused (CreateTime only).",
    ),
    _topic(
        "message.timestamp.difference.max.ms",
        at_least(0, LONG),
        LONG_MAX,
        "log.message.timestamp.difference.max.ms",
        "The older setting of both bounds on timestamps at once; counts for a bound that is not set itself.",
    ),
    _topic(
        "message.timestamp.type",
        TIMESTAMP_TYPE,
        "CreateTime",
        "log.message.timestamp.type",
        "Whether a record's timestamp is the producer's (CreateTime) or the broker's at the append (LogAppendTime).",
    ),
    _topic(
        "min.cleanable.dirty.ratio",
        RATIO,
        0.5,
        "log.cleaner.min.cleanable.ratio",
        "Which share of a compacted log must be new before it is compacted again.",
    ),
    _topic(
        "min.compaction.lag.ms",
        at_least(0, LONG),
        0,
        "log.cleaner.min.compaction.lag.ms",
        "The shortest time that a record of a compacted topic stays untouched.",
    ),
    _topic(
        "min.insync.replicas",
        at_least(1),
        1,
        "min.insync.replicas",
        "How many replicas must be in sync for a produce request with acks=all to be accepted.",
    ),
    _topic(
        "preallocate",
        BOOLEAN,
        False,
        "log.preallocate",
        "Whether a new segment's file gets its full size on disk at once.",
    ),
    _topic(
        "remote.log.copy.disable",
        BOOLEAN,
        False,
        "",
        "Whether copying to tiered storage is stopped; without tiered storage it has no effect.",
    ),
    _topic(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        "",
        "Whether the tiered data goes when tiered storage is switched off; without it, no effect.",
    ),
    _topic(
        "remote.storage.enable",
        ValueKind(ConfigType.BOOLEAN, check=_check_not_tiered, wanted="false: there is no tiered storage"),
        False,
        "",
        "Whether old segments move to tiered storage, which this broker does not have.",
    ),
    _topic(
        "retention.bytes",
        LONG,
        -1,
        "log.retention.bytes",
        "How large a partition may grow before its oldest segments are removed (cleanup.policy `delete`); "
        "-1 is no limit.",
    ),
    _topic(
        "retention.ms",
        at_least(-1, LONG),
        7 * _DAY,
        f"log.retention.ms log.retention.minutes*{_MINUTE} log.retention.hours*{_HOUR}",
        "How long a segment is kept after its newest record (cleanup.policy `delete`); -1 is for ever.",
    ),
    _topic(
        "segment.bytes",
        at_least(14),
        1_073_741_824,
        "log.segment.bytes",
        "The size at which a new segment is begun. Retention removes whole segments.",
    ),
    _topic(
        "segment.index.bytes",
        at_least(4),
        10_485_760,
        "log.index.size.max.bytes",
        "The size of an index at which a new segment is begun.",
    ),
    _topic(
        "segment.jitter.ms",
        at_least(0, LONG),
        0,
        f"log.roll.jitter.ms log.roll.jitter.hours*{_HOUR}",
        "The most that is taken off segment.ms at random, so that segments do not all roll at once.",
    ),
    _topic(
        "segment.ms",
        at_least(1, LONG),
        7 * _DAY,
        f"log.roll.ms log.roll.hours*{_HOUR}",
        "The age at which a new segment is begun even if the present one is not full.",
    ),
    _topic(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "unclean.leader.election.enable",
        "Whether a replica that lags may become the leader when no other is left, losing records.",
    ),
)
