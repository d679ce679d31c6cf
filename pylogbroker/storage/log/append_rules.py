"""Prepares appended records; the checks depend on their origin.

A leader checks records against the topic's settings, and assigns offsets. A follower takes its leader's batches
unchanged, if complete and not before its log's end. Gaps are valid: compaction makes them.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.errors import InvalidRecords
from pylogbroker.records import (
    NO_BOUND,
    AppendedEntry,
    AppendRules,
    Buffer,
    Codec,
    PreparedRecords,
    TimestampType,
    entries,
)
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.producer_states import Origin

_TIMESTAMPS: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}
_CODECS: Final = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def rules_of(config: LogConfig, origin: Origin) -> AppendRules:
    """Coordinators' keys and timestamps are not checked."""
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


def prepare_replicated(buffer: Buffer, log_end_offset: int) -> PreparedRecords:
    """Leave a leader's batches unchanged; raise CorruptRecords or InvalidRecords."""
    metas = []
    next_offset = log_end_offset
    for entry in entries(buffer):
        entry.check()
        if entry.base_offset < next_offset:
            raise InvalidRecords(f"offset {entry.base_offset}, expected {next_offset} or a later one")
        next_offset = entry.next_offset
        metas.append(AppendedEntry.of(entry))
    if not metas:
        raise InvalidRecords("the records have no complete batch")
    first, last = metas[0].base_offset, metas[-1].last_offset
    count = last - first + 1
    return PreparedRecords([buffer], len(buffer), metas, first, last, count, max(meta.max_timestamp for meta in metas))


def epochs_of(buffer: Buffer) -> list[tuple[int, int]]:
    return [(entry.leader_epoch, entry.base_offset) for entry in entries(buffer) if entry.leader_epoch >= 0]
