"""Record batches (message format v2).

A big-endian header of 61 bytes, then the records, compressed as a whole if there is a codec:

     0  base offset           int64     first offset of the batch
     8  batch length          int32     bytes after this field
    12  partition leader epoch int32    set by the leader, not covered by the CRC
    16  magic                 int8      2
    17  crc                   uint32    CRC-32C from the attributes to the end
    21  attributes            int16     bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
    23  last offset delta     int32     compaction does not change it
    27  first timestamp       int64     base of the records' timestamps, or the delete horizon
    35  max timestamp         int64     the append time if the timestamp type is LOG_APPEND_TIME
    43  producer id           int64     -1: none
    51  producer epoch        int16
    53  base sequence         int32
    57  record count          int32

    record: length varint | attributes int8 | timestamp delta varlong | offset delta varint
            | key length varint, key | value length varint, value | header count varint, headers
    header: key length varint, key | value length varint, value       (length -1: null)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.records.checksum import crc32c
from pylogbroker.records.compression import compress
from pylogbroker.records.model import NO_TIMESTAMP, Codec, Header, Record, TimestampType
from pylogbroker.records.varint import continue_varint, decode_varint, encode_varint

HEADER_V2 = struct.Struct(">qiibIhiqqqhii")
CRC_START = 21
LENGTH_START = 12

CODEC = 0x07
TIMESTAMP_TYPE = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_CRC = struct.Struct(">I")
_ESCAPE = "surrogateescape"
"""Keeps header keys intact that are not UTF-8."""
_MAX_INT64 = (1 << 63) - 1


def read_records(
    data: bytes, count: int, base_offset: int, first_timestamp: int, append_time: int | None
) -> Iterator[Record]:
    """Yield the records; `append_time`, if given, is their timestamp.

    One-byte varints, the usual case, are decoded inline: a call costs as much as the rest of the record.
    """
    position, end = 0, len(data)
    kind = TimestampType.CREATE_TIME if append_time is None else TimestampType.LOG_APPEND_TIME
    try:
        for _ in range(count):
            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = continue_varint(data, position, raw)
            record_end = position + (raw >> 1)
            if raw & 1 or record_end > end:
                raise CorruptRecords("a record is longer than its batch")
            raw = data[position + 1]
            position += 2
            if raw > 0x7F:
                raw, position = continue_varint(data, position, raw)
            timestamp = first_timestamp + ((raw >> 1) ^ -(raw & 1)) if append_time is None else append_time
            if not -_MAX_INT64 <= timestamp <= _MAX_INT64:
                raise CorruptRecords("a timestamp exceeds 64 bits")
            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = continue_varint(data, position, raw)
                if raw >> 32:
                    raise CorruptRecords("an offset delta exceeds 32 bits")
            offset = base_offset + ((raw >> 1) ^ -(raw & 1))
            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = continue_varint(data, position, raw)
            key = None if raw & 1 else data[position : (position := position + (raw >> 1))]
            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = continue_varint(data, position, raw)
            value = None if raw & 1 else data[position : (position := position + (raw >> 1))]
            if data[position]:
                headers, position = read_headers(data, position)
            else:
                headers = ()
                position += 1
            if position != record_end:
                raise CorruptRecords("a record's fields do not add up to its length")
            yield Record(offset, timestamp, key, value, headers, kind)
    except IndexError:
        raise CorruptRecords("the batch ends within a record") from None
    if position != end:
        raise CorruptRecords(f"{end - position} bytes are left behind the last record")


def read_headers(data: bytes, position: int) -> tuple[tuple[Header, ...], int]:
    count, position = decode_varint(data, position)
    if not 0 <= count <= len(data) - position:
        raise CorruptRecords(f"{count} headers in a record")
    headers: list[Header] = []
    for _ in range(count):
        key, position = _read_field(data, position)
        value, position = _read_field(data, position)
        if key is None:
            raise CorruptRecords("a header without a key")
        headers.append((key.decode("utf-8", _ESCAPE), value))
    return tuple(headers), position


def _read_field(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = decode_varint(data, position)
    if size < 0:
        return None, position
    end = position + size
    if end > len(data):
        raise CorruptRecords("a field is longer than its record")
    return data[position:end], end


def build_batch(
    records: Iterable[Record],
    base_offset: int | None,
    codec: Codec,
    level: int | None,
    attributes: int,
    append_time: int,
    producer: tuple[int, int, int],
    leader_epoch: int,
) -> bytes:
    payload = bytearray()
    base, count, delta = base_offset, 0, -1
    first = newest = NO_TIMESTAMP
    for record in records:
        timestamp = record.timestamp
        if base is None:
            base = record.offset
        if not count:
            first = newest = timestamp
        delta = next_offset_delta(record.offset - base, delta) if base_offset is None else count
        payload += _encode_record(record, delta, timestamp - first)
        newest = max(newest, timestamp)
        count += 1
    if base is None or not count:
        raise InvalidRecords("a batch needs at least one record")
    newest = append_time if attributes & TIMESTAMP_TYPE else newest
    fields = (base, leader_epoch, attributes | codec, delta, first, newest, *producer, count)
    return seal(fields, compress(codec, payload, level))


def next_offset_delta(delta: int, before: int) -> int:
    """Return `delta`; raise InvalidRecords unless it exceeds `before`."""
    if delta <= before:
        raise InvalidRecords("the records' offsets do not increase")
    return delta


def seal(fields: tuple[int, ...], payload: bytes) -> bytes:
    """Build a batch; `fields` of the header come without length, magic and CRC."""
    base_offset, leader_epoch, *rest = fields
    try:
        header = HEADER_V2.pack(base_offset, HEADER_V2.size - LENGTH_START + len(payload), leader_epoch, 2, 0, *rest)
    except struct.error as error:
        raise InvalidRecords(f"a record that its format cannot hold: {error}") from None
    crc = crc32c(payload, crc32c(header[CRC_START:]))
    return b"".join((header[: CRC_START - _CRC.size], _CRC.pack(crc), header[CRC_START:], payload))


def with_last_offset(batch: bytes, last_offset: int) -> bytes:
    """Raise a batch's last offset, as if compaction had removed records."""
    fields = list(HEADER_V2.unpack_from(batch))
    fields[6] = last_offset - fields[0]
    rest = batch[HEADER_V2.size :]
    fields[4] = crc32c(rest, crc32c(HEADER_V2.pack(*fields)[CRC_START:]))
    return HEADER_V2.pack(*fields) + rest


def _encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    body = b"\0%b%b%b%b%b" % (
        encode_varint(timestamp_delta),
        encode_varint(offset_delta),
        _encode_field(record.key),
        _encode_field(record.value),
        encode_headers(record.headers) if record.headers else b"\0",
    )
    return encode_varint(len(body)) + body


def _encode_field(field: bytes | None) -> bytes:
    return b"\x01" if field is None else encode_varint(len(field)) + field


def encode_headers(headers: tuple[Header, ...]) -> bytes:
    parts = [encode_varint(len(headers))]
    for key, value in headers:
        parts += (_encode_field(key.encode("utf-8", _ESCAPE)), _encode_field(value))
    return b"".join(parts)
