"""Prepares appended records; the checks depend on their origin.

A leader checks records against the topic's settings, and assigns offsets. A follower takes its leader's batches
unchanged, if complete and not before its log's end. Gaps are valid: compaction makes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import attrs

from pylogbroker.errors import InvalidRecords
from pylogbroker.records import (
    NO_BOUND,
    NO_TIMESTAMP,
    AppendedEntry,
    AppendRules,
    Buffer,
    Codec,
    ConversionListener,
    PreparedRecords,
    TimestampType,
    convert,
    entries,
    ignore_conversion,
    is_costly,
    prepare,
    prepare_run,
)
from pylogbroker.storage.log.addressing import byte_addressing
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.producer_states import Origin, ProducerStates

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


_PREPARATIONS_MAX: Final = 1000


@attrs.frozen
class Preparation:
    """Checks, converts and numbers the records of logs with the same settings."""

    client: AppendRules
    _converted: AppendRules
    _coordinator: AppendRules
    _byte_addressed: bool

    def is_costly(self, buffer: Buffer, origin: Origin = Origin.CLIENT) -> bool:
        if self._byte_addressed:
            return byte_addressing().is_costly(buffer, origin)
        return is_costly(buffer, self.client)

    def convert(
        self,
        buffer: Buffer,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        on_converted: ConversionListener = ignore_conversion,
    ) -> Buffer:
        """Validate and convert a client's records, for an append with Origin.CONVERTED.

        Blocks; any thread. Raises KafkaError like `prepare`.
        """
        if self._byte_addressed:
            return byte_addressing().convert(buffer, self.client, origin, now_ms, on_converted)
        return convert(buffer, self.client, now_ms, on_converted)

    def prepare(
        self,
        buffer: Buffer,
        origin: Origin,
        log_end_offset: int,
        now_ms: int,
        leader_epoch: int,
        producers: ProducerStates,
        on_converted: ConversionListener = ignore_conversion,
    ) -> PreparedRecords:
        """Raise KafkaError for invalid records, with the sender's code."""
        if self._byte_addressed:
            return byte_addressing().prepare(buffer, self.client, origin, log_end_offset, now_ms, on_converted)
        if origin is Origin.CLIENT:
            return prepare(buffer, self.client, log_end_offset, now_ms, leader_epoch, on_converted)
        if origin is Origin.CONVERTED:
            return prepare(buffer, self._converted, log_end_offset, now_ms, leader_epoch)
        if origin is Origin.COORDINATOR:
            rules = self._coordinator
            if rules.magic < 2 and producers.first_undecided_offset is not None:  # markers need v2
                rules = attrs.evolve(rules, magic=2)
            return prepare(buffer, rules, log_end_offset, now_ms, leader_epoch)
        return _prepare_replicated(buffer, log_end_offset)

    def prepare_run(
        self,
        buffers: Iterable[memoryview],
        log_end_offset: int,
        now_ms: int,
        leader_epoch: int,
        producers: ProducerStates,
    ) -> PreparedRecords | None:
        """Prepare batches of clients up to the first that needs a step of its own; None without one."""
        if self._byte_addressed:
            return None
        return prepare_run(buffers, self.client, log_end_offset, now_ms, leader_epoch, producers.order_of_run())


@lru_cache(_PREPARATIONS_MAX)
def preparation_of(config: LogConfig, byte_addressed: bool) -> Preparation:
    """Return the preparation by these settings. Most logs have the same, which takes much more memory than a log."""
    client = _rules_of(config, Origin.CLIENT)
    return Preparation(client, client.after_conversion, _rules_of(config, Origin.COORDINATOR), byte_addressed)


def _rules_of(config: LogConfig, origin: Origin) -> AppendRules:
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


def _prepare_replicated(buffer: Buffer, log_end_offset: int) -> PreparedRecords:
    """Leave a leader's batches unchanged; raise CorruptRecords or InvalidRecords."""
    metas: list[AppendedEntry] = []
    epochs: list[tuple[int, int]] = []
    last, newest, epoch = log_end_offset - 1, NO_TIMESTAMP, -1
    for entry in entries(buffer):
        entry.check()
        if entry.base_offset <= last:
            raise InvalidRecords(f"offset {entry.base_offset}, expected {last + 1} or a later one")
        last = entry.last_offset
        if entry.max_timestamp > newest:
            newest = entry.max_timestamp
        if entry.leader_epoch not in (epoch, -1):
            epoch = entry.leader_epoch
            epochs.append((epoch, entry.base_offset))
        metas.append(AppendedEntry.of(entry))
    if not metas:
        raise InvalidRecords("the records have no complete batch")
    first = metas[0].base_offset
    return PreparedRecords([buffer], len(buffer), metas, first, last, last - first + 1, newest, epochs=epochs)
