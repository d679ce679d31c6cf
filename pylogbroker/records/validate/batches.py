"""Validator of records for a leader's log; prepares the append. Results and errors are Kafka's.

    one v2 batch, unchanged                 validated; 16 new bytes before those received, which are not copied
    one v2 batch with another header        validated; 61 new bytes (header and CRC) before the records received
    other format, codec or form of codec    records decoded and encoded again

A header's largest timestamp is that of the records, whatever the producer claims: retention, searches by time and the
expiration of producers depend on it. Compressed records are decompressed for validation but appended as received.
Records are decoded only to check keys on compacted topics or a lower bound of timestamps, or to list invalid records.

Some consumers cannot read each form of compressed data (`records.portable_forms`). A batch in another form is encoded
again, by `convert`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from time import perf_counter_ns

import attrs

from pylogbroker.errors import ErrorCode, InvalidRecords, KafkaError, RejectionReason
from pylogbroker.records.batch import (
    CODEC,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_V2,
    TIMESTAMP_TYPE,
    TRANSACTIONAL,
)
from pylogbroker.records.builder import build
from pylogbroker.records.checksum import crc32c
from pylogbroker.records.compression import codec_of, inflate_portable
from pylogbroker.records.control import Marker
from pylogbroker.records.conversion_listener import ConversionListener, ignore_conversion
from pylogbroker.records.log_entry import LogEntry, entries, parse
from pylogbroker.records.model import NO_TIMESTAMP, Buffer, Codec, Record, TimestampType
from pylogbroker.records.portable_forms import is_portable
from pylogbroker.records.validate.append_rules import NO_BOUND, AppendRules
from pylogbroker.records.validate.record_errors import (
    NeedsRecompression,
    TooCostly,
    compression_errors,
    inline_limit,
    valid_records,
)
from pylogbroker.records.validate.structure import largest_timestamp_delta

_PREFIX = struct.Struct(">qii")
_unpack_header = HEADER_V2.unpack_from
_pack_prefix = _PREFIX.pack
_HEADER_SIZE = HEADER_V2.size
_unpack_count = struct.Struct(">i").unpack_from
_COUNT_AT = 57
_OFFSET_OR_SEQUENCE = RejectionReason.OFFSET_OR_SEQUENCE
_RECORDS_INLINE_MAX = 20_000  # a few milliseconds of validation
_INT64_MAX = (1 << 63) - 1
_UNUSUAL = None, NO_TIMESTAMP


@attrs.define
class AppendedEntry:
    base_offset: int
    last_offset: int
    count: int
    size: int
    max_timestamp: int
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    marker: Marker | None = None

    @classmethod
    def of(cls, entry: LogEntry) -> AppendedEntry:
        return cls(
            entry.base_offset,
            entry.last_offset,
            entry.count,
            entry.size,
            entry.max_timestamp,
            entry.attributes,
            entry.producer_id,
            entry.producer_epoch,
            entry.base_sequence,
            entry.marker,
        )

    @property
    def last_sequence(self) -> int:
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & 0x7FFFFFFF

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0


@attrs.define
class PreparedRecords:
    """Records ready to be appended: their bytes, `chunks`, in order.

    `log_append_time` is -1 unless the timestamp type is LogAppendTime. `epochs` are the leader epochs of a leader's
    batches, each with the offset where it begins.
    """

    chunks: list[Buffer]
    size: int
    entries: list[AppendedEntry]
    base_offset: int
    last_offset: int
    count: int
    max_timestamp: int
    log_append_time: int = -1
    epochs: Sequence[tuple[int, int]] = ()


def prepare(
    buffer: Buffer,
    rules: AppendRules,
    base_offset: int,
    now_ms: int,
    leader_epoch: int,
    on_converted: ConversionListener = ignore_conversion,
) -> PreparedRecords:
    """Validate received records for a log with the end `base_offset`; report those that get another format or codec.

    Raises CorruptRecords, InvalidRecords (with `record_errors` of single records), a KafkaError, or TooCostly: then
    `convert` must come first.
    """
    if type(buffer) is not memoryview:
        buffer = memoryview(buffer)
    entry, claimed = _usual_entry(buffer, rules, base_offset, now_ms)
    if entry is None:
        return _prepare_in_full(buffer, rules, base_offset, now_ms, leader_epoch, on_converted)
    size, newest = entry.size, entry.max_timestamp
    chunks: list[Buffer] = [_pack_prefix(base_offset, size - 12, leader_epoch), buffer[16:]]
    if newest != claimed:
        chunks = _rewritten(parse(buffer), entry, leader_epoch)
    return PreparedRecords(chunks, size, [entry], base_offset, entry.last_offset, entry.count, newest)


def prepare_run(
    buffers: Iterable[memoryview],
    rules: AppendRules,
    base_offset: int,
    now_ms: int,
    leader_epoch: int,
    follows: Callable[[AppendedEntry], bool],
) -> PreparedRecords | None:
    """Validate several batches like `prepare`, up to the first that needs more than an offset; None without one.

    That is a batch which is rejected, changed, too costly, or of a transaction. So is a batch of an idempotent producer
    of which `follows` is false.
    """
    chunks: list[Buffer] = []
    entries: list[AppendedEntry] = []
    offset, size, newest = base_offset, 0, NO_TIMESTAMP
    for buffer in buffers:
        try:
            entry, claimed = _usual_entry(buffer, rules, offset, now_ms)
        except (KafkaError, TooCostly):
            break
        if (
            entry is None
            or entry.max_timestamp != claimed
            or entry.attributes & TRANSACTIONAL
            or (entry.producer_id >= 0 and not follows(entry))
        ):
            break
        chunks += (_pack_prefix(offset, entry.size - 12, leader_epoch), buffer[16:])
        entries.append(entry)
        size += entry.size
        offset = entry.last_offset + 1
        if claimed > newest:
            newest = claimed
    if not entries:
        return None
    return PreparedRecords(chunks, size, entries, base_offset, offset - 1, offset - base_offset, newest)


def _usual_entry(
    buffer: memoryview, rules: AppendRules, base_offset: int, now_ms: int
) -> tuple[AppendedEntry | None, int]:
    """Return the entry of a batch whose records are appended as received, and the largest timestamp that it claims.

    Return None for other batches. Raise an error of the records, or TooCostly.
    """
    size = len(buffer)
    if size < _HEADER_SIZE:
        return _UNUSUAL
    (
        first_offset, length, _, magic, crc, attributes, last_delta, first_timestamp,
        max_timestamp, producer_id, producer_epoch, base_sequence, count,
    ) = _unpack_header(buffer)  # fmt: skip
    if not (
        magic == 2
        and length == size - 12
        and first_offset == 0
        and attributes in rules.fast_attributes
        and last_delta == count - 1
        and count > 0
        and size <= rules.max_bytes
        and (base_sequence >= 0 or producer_id < 0)
        and crc32c(buffer[21:]) == crc
    ):
        return _UNUSUAL
    if rules.is_validated:
        newest = max_timestamp
    else:
        claimed = max_timestamp - first_timestamp
        newest = first_timestamp + (
            _largest_delta_inflated(buffer, attributes, count, claimed, rules)
            if attributes & CODEC
            else largest_timestamp_delta(buffer, count, claimed, _HEADER_SIZE)
        )
    if not (NO_TIMESTAMP <= newest <= _INT64_MAX and newest - now_ms <= rules.timestamp_after_max_ms):
        return _UNUSUAL
    entry = AppendedEntry(
        base_offset, base_offset + last_delta, count, size, newest,
        attributes, producer_id, producer_epoch, base_sequence,
    )  # fmt: skip
    return entry, max_timestamp


def is_costly(buffer: Buffer, rules: AppendRules) -> bool:
    """Return whether `prepare` would take long, and `convert` can come first.

    Not for topics of formats v0 and v1: their compressed sets contain offsets, which `convert` does not know.
    """
    if rules.magic < 2 or len(buffer) < _HEADER_SIZE:
        return False
    if buffer[16] != 2 or rules.decodes_records or _unpack_count(buffer, _COUNT_AT)[0] > _RECORDS_INLINE_MAX:
        return True
    codec = buffer[22] & CODEC
    return codec != Codec.NONE or rules.codec not in (None, codec)


def convert(
    buffer: Buffer, rules: AppendRules, now_ms: int, on_converted: ConversionListener = ignore_conversion
) -> Buffer:
    """Do the costly part of `prepare` in a worker thread: return one validated v2 batch in the topic's codec.

    `prepare` then gets the result and `rules.after_conversion`. Raises the errors of `prepare` except TooCostly.
    """
    as_sent = attrs.evolve(
        rules, timestamp_type=TimestampType.CREATE_TIME, inline_bytes_max=rules.decompressed_bytes_max
    )
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:  # the broker sets timestamps
        as_sent = attrs.evolve(as_sent, timestamp_before_max_ms=NO_BOUND, timestamp_after_max_ms=NO_BOUND)
    try:
        first, *rest = _prepare_to_convert(buffer, as_sent, now_ms, on_converted).chunks
    except KafkaError as error:
        error.__context__ = None  # its frames and the traceback's keep the decompressed data alive
        raise error.with_traceback(None) from None
    return buffer if len(first) == _PREFIX.size else b"".join((first, *rest))


def _prepare_to_convert(
    buffer: Buffer, rules: AppendRules, now_ms: int, on_converted: ConversionListener
) -> PreparedRecords:
    try:
        return prepare(buffer, rules, 0, now_ms, -1, on_converted)
    except NeedsRecompression:
        return _prepare_in_full(memoryview(buffer), rules, 0, now_ms, -1, on_converted, recompresses=True)


def _largest_delta_inflated(buffer: memoryview, attributes: int, count: int, claimed: int, rules: AppendRules) -> int:
    codec = codec_of(attributes)
    with compression_errors(rules):
        data = inflate_portable(codec, buffer[_HEADER_SIZE:], inline_limit(rules))
    return largest_timestamp_delta(data, count, claimed)


def _prepare_in_full(
    buffer: memoryview,
    rules: AppendRules,
    base_offset: int,
    now_ms: int,
    leader_epoch: int,
    on_converted: ConversionListener,
    *,
    recompresses: bool = False,
) -> PreparedRecords:
    log_entries, codec = valid_entries(buffer, rules)
    first = log_entries[0]
    target = codec if rules.codec is None else rules.codec
    recompress = recompresses or (codec is not target and not (codec is Codec.NONE and first.is_control))
    if first.magic == rules.magic == 2 and not recompress:
        return _in_place(first, rules, base_offset, now_ms, leader_epoch)
    begun_ns = perf_counter_ns()
    records = chain.from_iterable(valid_records(entry, rules, now_ms) for entry in log_entries)
    built = _build(records, first, target, rules, base_offset, now_ms, leader_epoch)
    prepared = _prepared_of(built, rules, base_offset, now_ms)
    if recompress or first.magic != rules.magic:
        on_converted(prepared.count, prepared.size, perf_counter_ns() - begun_ns)
    return prepared


def valid_entries(buffer: Buffer, rules: AppendRules) -> tuple[list[LogEntry], Codec]:
    """Validate headers and CRCs like `prepare`; return the entries and their codec."""
    log_entries = list(entries(buffer, partial=True))
    for entry in log_entries:
        _check_entry(entry, rules)
    codec = _check_together(log_entries)
    for entry in log_entries:
        _check_batch(entry, log_entries[0], rules)
    return log_entries, codec


def _check_entry(entry: LogEntry, rules: AppendRules) -> None:
    if rules.from_client and entry.magic == 2 and entry.base_offset != 0:
        raise InvalidRecords(
            f"a producer's batch begins at offset 0, not {entry.base_offset}", reason=_OFFSET_OR_SEQUENCE
        )
    _check_size(entry.size, rules)
    entry.check()


def _check_size(size: int, rules: AppendRules) -> None:
    if size > rules.max_bytes:
        raise KafkaError(f"a batch of {size} bytes exceeds the topic's {rules.max_bytes}", ErrorCode.MESSAGE_TOO_LARGE)


def _check_together(log_entries: Sequence[LogEntry]) -> Codec:
    """Return the common codec; only uncompressed v0 and v1 may have several entries."""
    if not log_entries:
        raise InvalidRecords("there is no whole batch in the records")
    codec = next((entry.codec for entry in reversed(log_entries) if entry.codec is not Codec.NONE), Codec.NONE)
    if len(log_entries) > 1 and (log_entries[0].magic == 2 or codec is not Codec.NONE):
        raise InvalidRecords(f"{len(log_entries)} batches for one partition where one is allowed")
    return codec


def _check_batch(entry: LogEntry, first: LogEntry, rules: AppendRules) -> None:
    if entry.magic != first.magic:
        raise InvalidRecords(
            f"messages of magic {first.magic} and {entry.magic} for one partition", reason=RejectionReason.MAGIC
        )
    if entry.magic < 2:
        return
    if rules.from_client:
        _check_claims(entry)
    if rules.magic < 2 and (entry.is_transactional or entry.producer_id >= 0):
        raise InvalidRecords(
            f"message format v{rules.magic} has neither idempotent producers nor transactions",
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        )


def _check_claims(entry: LogEntry) -> None:
    spanned = entry.last_offset - entry.base_offset + 1
    if entry.count <= 0 or entry.count != spanned:
        raise InvalidRecords(
            f"a batch of {entry.count} records that spans {spanned} offsets", reason=_OFFSET_OR_SEQUENCE
        )
    if entry.is_control:
        raise InvalidRecords("clients may not write control records")
    if entry.producer_id >= 0 and entry.base_sequence < 0:
        raise InvalidRecords(
            f"sequence number {entry.base_sequence} of producer {entry.producer_id}", reason=_OFFSET_OR_SEQUENCE
        )


def _in_place(entry: LogEntry, rules: AppendRules, base_offset: int, now_ms: int, leader_epoch: int) -> PreparedRecords:
    max_timestamp = _validated_newest(entry, rules, now_ms)
    append_time = -1
    attributes = entry.attributes & ~TIMESTAMP_TYPE
    if rules.from_client:  # only compaction sets this
        attributes &= ~DELETE_HORIZON
    if rules.timestamp_type:
        attributes |= TIMESTAMP_TYPE
        max_timestamp = append_time = now_ms
    last_offset = base_offset + entry.last_offset - entry.base_offset
    meta = AppendedEntry(
        base_offset, last_offset, entry.count, entry.size, max_timestamp,
        attributes, entry.producer_id, entry.producer_epoch, entry.base_sequence, entry.marker,
    )  # fmt: skip
    chunks = _rewritten(entry, meta, leader_epoch)
    return PreparedRecords(
        chunks, entry.size, [meta], base_offset, last_offset, entry.count, max_timestamp, append_time
    )


def _validated_newest(entry: LogEntry, rules: AppendRules, now_ms: int) -> int:
    """Validate a batch's records; return their largest timestamp. Decode them only if one may be invalid."""
    if not (rules.decodes_records or entry.timestamp_type):
        if rules.is_validated:
            return entry.max_timestamp
        first = entry.first_timestamp
        newest = first + _largest_delta_inflated(
            entry.buffer, entry.attributes, entry.count, entry.max_timestamp - first, rules
        )
        if rules.timestamp_type or (
            NO_TIMESTAMP <= newest <= _INT64_MAX and newest - now_ms <= rules.timestamp_after_max_ms
        ):
            return newest
    if not rules.is_validated and not is_portable(entry.codec, entry.buffer[_HEADER_SIZE:]):
        raise NeedsRecompression("compressed data in a form that not all consumers read")
    return max(chain((NO_TIMESTAMP,), (record.timestamp for record in valid_records(entry, rules, now_ms))))


def _rewritten(entry: LogEntry, meta: AppendedEntry, leader_epoch: int) -> list[Buffer]:
    rest = entry.buffer[_HEADER_SIZE:]
    last_delta = entry.last_offset - entry.base_offset
    fields = [meta.base_offset, entry.size - 12, leader_epoch, 2, 0, meta.attributes, last_delta]
    fields += [entry.first_timestamp, meta.max_timestamp]
    fields += [meta.producer_id, meta.producer_epoch, meta.base_sequence, meta.count]
    fields[4] = crc32c(rest, crc32c(HEADER_V2.pack(*fields)[CRC_START:]))
    return [HEADER_V2.pack(*fields), rest]


def _build(
    records: Iterator[Record],
    first: LogEntry,
    codec: Codec,
    rules: AppendRules,
    base_offset: int,
    now_ms: int,
    leader_epoch: int,
) -> bytes:
    return build(
        records,
        magic=rules.magic,
        codec=codec,
        level=rules.level,
        base_offset=base_offset,
        timestamp_type=rules.timestamp_type,
        append_time=now_ms,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
        transactional=first.magic == 2 and first.is_transactional,
        leader_epoch=leader_epoch,
    )


def _prepared_of(built: bytes, rules: AppendRules, base_offset: int, now_ms: int) -> PreparedRecords:
    metas = [AppendedEntry.of(entry) for entry in entries(built)]
    for meta in metas:
        _check_size(meta.size, rules)
    last_offset = metas[-1].last_offset
    count = last_offset - base_offset + 1
    if len(metas) == 1:  # a compressed message set lacks its first offset
        metas[0].base_offset, metas[0].count = base_offset, count
    return PreparedRecords(
        [built],
        len(built),
        metas,
        base_offset,
        last_offset,
        count,
        max(meta.max_timestamp for meta in metas),
        now_ms if rules.timestamp_type else -1,
    )
