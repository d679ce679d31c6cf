"""How records become what is written, by who brings them.

A leader prepares what clients and coordinators send: checks it against the topic's settings and gives it its offsets.
A follower takes entries from its leader as they are, offsets and all; they only have to be whole and to go on where
the log ends (a gap is all right: compaction makes gaps).

A log of format 0.7 takes sets of its own messages, and what Kafka's clients send as far as that can be said in them.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.errors import ErrorCode, InvalidRecords
from pylogbroker.records import (
    NO_BOUND,
    AppendedEntry,
    AppendRules,
    Buffer,
    Codec,
    PreparedRecords,
    TimestampType,
    check_legacy07,
    entries,
    is_costly_legacy07_set,
    prepare_legacy07,
    to_legacy07,
)
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.producer_states import Origin

_TIMESTAMPS: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}
_MOST_AT_ONCE: Final = 64 * 1024  # of records to be compressed again where they are appended
_CODECS: Final = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def rules_of(config: LogConfig, origin: Origin) -> AppendRules:
    """What a topic's settings ask of records.  Coordinators are trusted with keys and timestamps."""
    client = origin is Origin.CLIENT
    return AppendRules(
        magic=config.magic,
        codec=_CODECS[config.compression_type],
        level=_level(config),
        timestamp_type=_TIMESTAMPS[config.message_timestamp_type],
        timestamp_before_max_ms=config.message_timestamp_before_max_ms if client else NO_BOUND,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms if client else NO_BOUND,
        max_bytes=config.max_message_bytes,
        keys_required=config.compacts and client,
        from_client=client,
        is_validated=not client,
    )


def _level(config: LogConfig) -> int | None:
    match config.compression_type:
        case "gzip":
            return None if config.compression_gzip_level == -1 else config.compression_gzip_level
        case "lz4":
            return config.compression_lz4_level
        case "zstd":
            return config.compression_zstd_level
        case _:
            return None


def follow(buffer: Buffer, log_end_offset: int) -> PreparedRecords:
    """Entries from a leader, to be written unchanged; CorruptRecords or InvalidRecords if they can't be."""
    metas = []
    next_offset = log_end_offset
    for entry in entries(buffer):
        entry.check()
        if entry.base_offset < next_offset:
            raise InvalidRecords(f"offset {entry.base_offset} where {next_offset} or a later one is expected")
        next_offset = entry.next_offset
        metas.append(AppendedEntry.of(entry))
    if not metas:
        raise InvalidRecords("there is no whole entry in the records")
    first, last = metas[0].base_offset, metas[-1].last_offset
    count = last - first + 1
    return PreparedRecords([buffer], len(buffer), metas, first, last, count, max(meta.max_timestamp for meta in metas))


def epochs_of(buffer: Buffer) -> list[tuple[int, int]]:
    """The leader epochs that entries from a leader carry, each with the offset of the entry."""
    return [(entry.leader_epoch, entry.base_offset) for entry in entries(buffer) if entry.leader_epoch >= 0]


def prepare_byte_addressed(
    buffer: Buffer, rules: AppendRules, origin: Origin, position: int, now_ms: int
) -> PreparedRecords:
    """The same as `records.prepare`, for a log of format 0.7 that ends at `position`."""
    if origin is Origin.COORDINATOR:
        detail = "message format 0.7 has neither idempotent producers nor transactions"
        raise InvalidRecords(detail, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    if origin is Origin.CLIENT:
        buffer = to_legacy07(buffer, rules, now_ms, min(rules.inline_bytes_max, _MOST_AT_ONCE))
    if origin in (Origin.CLIENT, Origin.CONVERTED):
        rules = rules.after_conversion
    return prepare_legacy07(buffer, rules, position)


def convert_byte_addressed(buffer: Buffer, rules: AppendRules, origin: Origin, now_ms: int) -> Buffer:
    """The costly part of it, for a worker; to be appended with Origin.CONVERTED."""
    if origin is Origin.SIMPLE:
        return check_legacy07(buffer, rules)
    return to_legacy07(buffer, rules, now_ms, rules.decompressed_bytes_max)


def is_costly_byte_addressed(buffer: Buffer, origin: Origin) -> bool:
    """Whether records are decoded or decompressed for it."""
    return origin is not Origin.SIMPLE or is_costly_legacy07_set(buffer)
