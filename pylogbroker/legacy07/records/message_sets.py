"""Validation of records for a 0.7 topic, and conversion from and to Kafka's later formats.

    client    stored                                        sent to consumers
    0.7       sets as received, validated                   bytes of the log
    Kafka     payloads only, as messages of magic 1         message sets or batches, with positions as offsets

Keys, headers, null values, producer ids and transactions are rejected: 0.7 lacks them. Timestamps are dropped.

A compressed message with more inner messages than bytes is stored uncompressed: each inner message needs a position.
So is one whose compressed data is in a form that not all consumers read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from time import perf_counter_ns

import attrs

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords, KafkaError
from pylogbroker.legacy07.records.messages import CODECS, SIZE_PREFIX, Legacy07Message, build_legacy07, messages
from pylogbroker.records.batch import with_last_offset
from pylogbroker.records.builder import build
from pylogbroker.records.conversion import SizeBudget
from pylogbroker.records.conversion_listener import ConversionListener, ignore_conversion
from pylogbroker.records.decompression_errors import Overflow
from pylogbroker.records.log_entry import LogEntry
from pylogbroker.records.message_set import LENGTH_START, SMALLEST
from pylogbroker.records.model import Buffer, Codec, Record
from pylogbroker.records.portable_forms import is_portable
from pylogbroker.records.validate.append_rules import AppendRules
from pylogbroker.records.validate.batches import AppendedEntry, PreparedRecords, valid_entries
from pylogbroker.records.validate.record_errors import TooCostly, valid_records

_SIZE = struct.Struct(">i")
_INLINE_MESSAGES_MAX = 500  # a millisecond of validation
_RUN = 500  # uncompressed messages in one batch
_RECORD_V2 = 12  # approximate maximum bytes besides the value


# To the log


def prepare_legacy07(buffer: Buffer, rules: AppendRules, position: int) -> PreparedRecords:
    """Prepare a set for a log that ends at `position`.

    Raise CorruptRecords, InvalidRecords, a KafkaError, or TooCostly: then `check_legacy07` must come first, in a worker
    thread.
    """
    if not rules.is_validated:
        buffer = _checked(buffer, rules)
    metas = _metas(buffer, position)
    if not metas:
        raise InvalidRecords("there is no message in the set")
    last = metas[-1].last_offset
    return PreparedRecords([buffer], len(buffer), metas, position, last, last - position + 1, -1)


def _metas(buffer: Buffer, position: int) -> list[AppendedEntry]:
    metas, unpack = [], _SIZE.unpack_from
    start, end = 0, len(buffer)
    while start < end:
        size = SIZE_PREFIX + unpack(buffer, start)[0]
        metas.append(AppendedEntry(position + start, position + start + size - 1, 1, size, -1))
        start += size
    return metas


def check_legacy07(buffer: Buffer, rules: AppendRules) -> Buffer:
    """Do the costly part of `prepare_legacy07`, which then gets the result and `rules.after_conversion`."""
    return _checked(buffer, attrs.evolve(rules, inline_bytes_max=rules.decompressed_bytes_max))


def is_costly_legacy07_set(buffer: Buffer) -> bool:
    """Return True for compressed or very many messages; False for a damaged set."""
    try:
        return any(
            message.attributes or number == _INLINE_MESSAGES_MAX for number, message in enumerate(messages(buffer, 0))
        )
    except CorruptRecords:
        return False


def _checked(buffer: Buffer, rules: AppendRules) -> Buffer:
    parts: list[Buffer] = []
    limit = min(rules.inline_bytes_max, rules.decompressed_bytes_max)
    changed = False
    for message in messages(buffer, 0):
        _check_size(message, rules)
        message.check()
        part: Buffer = message.buffer
        if message.attributes:
            part, used = _valid_wrapper(message, rules, limit)
            changed |= part is not message.buffer
            limit -= used
        parts.append(part)
    return b"".join(parts) if changed else buffer


def _valid_wrapper(message: Legacy07Message, rules: AppendRules, limit: int) -> tuple[Buffer, int]:
    try:
        values = list(message.values(limit))
    except Overflow as error:
        if rules.inline_bytes_max < rules.decompressed_bytes_max:
            raise TooCostly(error.detail) from None
        raise InvalidRecords(error.detail) from None
    if not values:
        raise InvalidRecords(f"nothing is inside of the compressed message at position {message.base_offset}")
    stays = len(values) <= message.size and is_portable(message.codec, message.payload)
    part = message.buffer if stays else build_legacy07(values)
    return part, sum(map(len, values))


def _check_size(message: Legacy07Message, rules: AppendRules) -> None:
    if message.size > rules.max_bytes:
        detail = f"a message of {message.size} bytes exceeds the topic's {rules.max_bytes}"
        raise KafkaError(detail, ErrorCode.MESSAGE_TOO_LARGE)


def to_legacy07(
    buffer: Buffer,
    rules: AppendRules,
    now_ms: int,
    limit: int,
    on_converted: ConversionListener = ignore_conversion,
) -> bytes:
    """Convert a Kafka client's records, which may decompress to `limit` bytes, to a set.

    Raise like `prepare`; UNSUPPORTED_FOR_MESSAGE_FORMAT for what 0.7 cannot express; TooCostly if a larger limit would
    help.
    """
    begun_ns = perf_counter_ns()
    as_sent = attrs.evolve(rules, magic=2, inline_bytes_max=limit)
    entries, codec = valid_entries(buffer, as_sent)
    for entry in entries:
        _reject_producers(entry)
    values = [_value(record) for entry in entries for record in valid_records(entry, as_sent, now_ms)]
    target = codec if rules.codec is None else rules.codec
    built = build_legacy07(values, target if target in CODECS else Codec.GZIP, rules.level)
    for message in messages(built, 0):
        _check_size(message, rules)
    on_converted(len(values), len(built), perf_counter_ns() - begun_ns)
    return built


def _reject_producers(entry: LogEntry) -> None:
    if entry.producer_id >= 0 or entry.is_transactional:
        raise _unsupported("neither idempotent producers nor transactions: set enable.idempotence=false")


def _value(record: Record) -> bytes:
    if record.key is not None:
        raise _unsupported("no keys")
    if record.headers:
        raise _unsupported("no headers")
    if record.value is None:
        raise _unsupported("no null values")
    return record.value


def _unsupported(what: str) -> InvalidRecords:
    return InvalidRecords(f"message format 0.7 has {what}", ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)


# From the log


def from_legacy07(buffer: Buffer, position: int, magic: int, budget: SizeBudget, *, first_offset: int) -> bytes:
    """Convert messages, which begin at `position` of the log, to a later format.

    Records below `first_offset` are omitted. The result has at least one record, and else stays within the budget. A v2
    batch spans the offsets up to the next message: a consumer's position is always a message's.

    Conversion stops at a damaged message, which must not get a valid checksum; if first, raise CorruptRecords or
    InvalidRecords. A result that the budget has stopped is useless.
    """
    parts: list[bytes] = []
    try:
        parts.extend(_converted(_runs(messages(buffer, position, partial=True)), magic, first_offset, budget))
    except (CorruptRecords, InvalidRecords):
        if not parts:
            raise
    return b"".join(parts)


def _converted(
    runs: Iterator[tuple[Codec, list[Legacy07Message]]], magic: int, first_offset: int, budget: SizeBudget
) -> Iterator[bytes]:
    for codec, run in runs:
        records, end = _wanted(run, magic, first_offset, budget)
        if records:
            budget.converted += len(records)
            built = build(records, magic=magic, codec=codec, base_offset=None)
            yield with_last_offset(built, end) if magic == 2 else built
        if budget.is_full:
            return


def _runs(source: Iterator[Legacy07Message]) -> Iterator[tuple[Codec, list[Legacy07Message]]]:
    """Group uncompressed messages; compressed ones are alone. Raise CorruptRecords after the last valid message."""
    run: list[Legacy07Message] = []
    try:
        for message in source:
            message.check()
            if run and (message.attributes or len(run) == _RUN):
                yield Codec.NONE, run
                run = []
            if message.attributes:
                yield message.codec, [message]
            else:
                run.append(message)
    except CorruptRecords:
        if run:
            yield Codec.NONE, run
        raise
    if run:
        yield Codec.NONE, run


def _wanted(run: list[Legacy07Message], magic: int, first_offset: int, budget: SizeBudget) -> tuple[list[Record], int]:
    overhead = _RECORD_V2 if magic == 2 else LENGTH_START + SMALLEST[magic]
    records: list[Record] = []
    end = -1
    for message in run:
        for record in message.records():
            if record.offset >= first_offset:
                if not budget.take(overhead + len(record.value or b"")):
                    return records, end
                records.append(record)
                end = record.offset
        end = message.last_offset
    return records, end
