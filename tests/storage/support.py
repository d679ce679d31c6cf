"""Support of storage's tests: batches made, and segments read, by kafka-python; logs opened on a directory."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import crcmod.predefined
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from pylogbroker.storage import (
    DeletedFiles,
    GuardedPolicy,
    Log,
    LogConfig,
    NewestSearch,
    Pools,
    Recovered,
    TimestampedOffset,
)
from pylogbroker.storage.log.loader import Checkpointed, load_log
from pylogbroker.storage.log.retention import expire

NOW = 1_700_000_000_000
_crc32c = crcmod.predefined.mkCrcFun("crc-32c")


def batch(
    values: Sequence[bytes] = (b"value",),
    timestamps: Sequence[int] = (),
    producer: tuple[int, int, int] = (-1, -1, -1),
    codec: int = 0,
    transactional: bool = False,
) -> bytes:
    """A v2 batch as a producer sends it; `producer` is id, epoch and first sequence."""
    builder = DefaultRecordBatchBuilder(2, codec, transactional, *producer, 1 << 30)
    for number, value in enumerate(values):
        timestamp = timestamps[number] if timestamps else NOW
        builder.append(number, timestamp, None, value, [])
    return bytes(builder.build())


def messages(values: Sequence[bytes], magic: int, timestamp: int = NOW, codec: int = 0) -> bytes:
    """A message set of v0 or v1."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
    for number, value in enumerate(values):
        builder.append(number, timestamp if magic else None, None, value)
    return bytes(builder.build())


def marker(
    committed: bool, producer_id: int, epoch: int = 0, coordinator_epoch: int = 0, timestamp: int = NOW, offset: int = 0
) -> bytes:
    """A batch that ends a transaction, byte by byte as Kafka's documentation of control batches has it."""
    record = struct.pack(">bbbbbhhbhib", 32, 0, 0, 0, 8, 0, committed, 12, 0, coordinator_epoch, 0)
    times_and_producer = timestamp, timestamp, producer_id, epoch, -1
    checked = struct.pack(">hiqqqhii", 0x30, 0, *times_and_producer, 1) + record
    return struct.pack(">qiibI", offset, 9 + len(checked), -1, 2, _crc32c(checked)) + checked


def records_in(data: bytes) -> list[tuple[int, bytes]]:
    """Offsets and values of all records, as kafka-python reads them."""
    found = []
    reader = MemoryRecords(data)
    while (part := reader.next_batch()) is not None:
        assert part.validate_crc()
        found += [(record.offset, bytes(record.value)) for record in part]
    return found


def bytes_on_disk(path: Path | str) -> bytes:
    """All entries of a log: its segments' files in order."""
    return b"".join(file.read_bytes() for file in sorted(Path(path).glob("*.kafka")))


def stored(log: Log) -> list[tuple[int, bytes]]:
    """Return the content of the log's files from the log start on."""
    return [found for found in records_in(bytes_on_disk(log.path)) if found[0] >= log.log_start_offset]


def open_log(
    path: Path | str,
    config: LogConfig | None = None,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start: int = 0,
    high_watermark: int = 0,
    cleaner_checkpoint: int = 0,
    found: list[Recovered] | None = None,
    pools: Pools | None = None,
) -> Log:
    """The log in a directory, made if there is none, with what checkpoints would say of it."""
    os.makedirs(path, exist_ok=True)
    saved = Checkpointed(clean, recovery_point, log_start, high_watermark, cleaner_checkpoint)
    report = [] if found is None else found
    return load_log("events", 0, str(path), config or LogConfig(), pools or Pools.of(64), saved, NOW, report.append)


def reopen(log: Log, **saved: Any) -> Log:
    """Reopen the log after a clean stop."""
    log.close()
    settings = {"clean": True, "recovery_point": log.recovery_point, "log_start": log.log_start_offset} | saved
    return open_log(log.path, log.config, **settings)


def fill(log: Log, count: int, size: int = 100, step_ms: int = 1000) -> list[bytes]:
    """Append `count` batches of one record; returns their values."""
    values = [b"%d:" % number + b"x" * size for number in range(log.log_end_offset, log.log_end_offset + count)]
    for number, value in enumerate(values):
        log.append(batch([value], [NOW + number * step_ms]), NOW + number * step_ms)
    log.high_watermark = log.log_end_offset
    return values


def read_all(log: Log, offset: int, max_bytes: int = 1 << 20, upto: int | None = None) -> bytes:
    """Return all records that a consumer reads up to the end."""
    parts = []
    end = log.log_end_offset if upto is None else upto
    while (region := log.read(offset, max_bytes, upto=end)) is not None:
        data = region.read()
        parts.append(data)
        offset = records_in(data)[-1][0] + 1
    return b"".join(parts)


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampedOffset | None:
    """The first record that is at least as young as `timestamp`."""
    start = 0
    while (candidate := log.find_timestamp(timestamp, start)) is not None:
        if (found := candidate.first()) is not None:
            return found
        start = candidate.next_offset
    return None


def max_timestamp_offset(log: Log, bound: int | None = None) -> TimestampedOffset | None:
    """The first record of those with the largest timestamp below `bound`; None without records or timestamps."""
    search = NewestSearch(log.log_end_offset if bound is None else bound)
    while (scan := log.next_newest_scan(search)) is not None:
        while not scan.advance():
            pass
        search.note(scan.newest)
    return search.newest


def expired(log: Log, now_ms: int, policies: Iterable[GuardedPolicy] = ()) -> list[DeletedFiles]:
    """The segments that a log takes away, in all of its steps."""
    return [files for files in expire(log, now_ms, policies) if files is not None]
