"""Messages and compressed message sets, formats v0 and v1.

    0            8         12       16        17             18 (v1)        18 or 26
    +------------+---------+--------+---------+--------------+--------------+----------+-----+----------+-------+
    | offset 64  | size 32 | crc 32 | magic 8 | attributes 8 | timestamp 64 | size 32  | key | size 32  | value |
    +------------+---------+--------+---------+--------------+--------------+----------+-----+----------+-------+

`size` counts the bytes after it; a key or value of size -1 is null. The CRC-32 covers everything from the magic on.
Attributes: bits 0-2 codec, 3 timestamp type (v1).

A compressed set is one message, the wrapper. Its value is the compressed inner messages, its offset that of the last.
Inner offsets are absolute in v0; in v1 only their differences count. With LOG_APPEND_TIME the wrapper's timestamp holds
for all.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator

import attrs

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords
from pylogbroker.records.batch import TIMESTAMP_TYPE, next_offset_delta
from pylogbroker.records.checksum import crc32
from pylogbroker.records.compression import codec_of, compress, decompress, reject_zstd_before_v2
from pylogbroker.records.model import NO_TIMESTAMP, Buffer, Codec, Record, TimestampType

LENGTH_START = 12
CRC_START = 16
MESSAGE_HEADER = struct.Struct(">qiIbb")
INT64 = struct.Struct(">q")
SMALLEST = (14, 22)
"""Smallest valid `size`, by magic."""

KNOWN_ATTRIBUTES = (0x07, 0x07 | TIMESTAMP_TYPE)
"""Attribute bits in use, by magic."""

_CRC = struct.Struct(">I")
_FIELD_SIZE = struct.Struct(">i")


@attrs.frozen
class StoredMessage:
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def _read_message(data: Buffer, start: int, end: int) -> StoredMessage:
    """Raise CorruptRecords for wrong CRCs or sizes."""
    offset, _size, crc, magic, attributes = MESSAGE_HEADER.unpack_from(data, start)
    if crc32(data[start + CRC_START : end]) != crc:
        raise CorruptRecords(f"the message at offset {offset} fails its CRC")
    position = start + MESSAGE_HEADER.size
    timestamp = NO_TIMESTAMP
    if magic:
        (timestamp,) = INT64.unpack_from(data, position)
        position += INT64.size
    key, position = _read_field(data, position, end)
    value, position = _read_field(data, position, end)
    if position != end:
        raise CorruptRecords(f"the message at offset {offset} is longer than its fields")
    return StoredMessage(offset, magic, attributes & KNOWN_ATTRIBUTES[magic], timestamp, key, value)


def _read_field(data: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    start = position + _FIELD_SIZE.size
    if start > end:
        raise CorruptRecords("a message ends within a field's size")
    (size,) = _FIELD_SIZE.unpack_from(data, position)
    if size < 0:
        return None, start
    if size > end - start:
        raise CorruptRecords(f"a field of {size} bytes in a message with {end - start} left")
    return bytes(data[start : start + size]), start + size


def read_records(data: Buffer, limit: int) -> Iterator[Record]:
    message = _read_message(data, 0, len(data))
    kind = TimestampType.LOG_APPEND_TIME if message.attributes & TIMESTAMP_TYPE else TimestampType.CREATE_TIME
    codec = codec_of(message.attributes)
    if codec is Codec.NONE:
        yield Record(message.offset, message.timestamp, message.key, message.value, (), kind)
        return
    reject_zstd_before_v2(codec, message.magic)
    if message.value is None:
        raise CorruptRecords("a compressed message set without a value")
    inside = decompress(codec, message.value, message.magic, limit)
    last = deque(_bounds(inside, message.magic), maxlen=1)  # the set may have millions
    if not last:
        raise CorruptRecords("an empty compressed message set")
    shift = _offset_shift(message, inside, last[0][0])
    for start, end in _bounds(inside, message.magic):
        inner = _read_message(inside, start, end)
        if inner.attributes & 0x07:
            raise InvalidRecords("a compressed message inside of a compressed message set")
        timestamp = message.timestamp if kind else inner.timestamp
        yield Record(inner.offset + shift, timestamp, inner.key, inner.value, (), kind)


def _offset_shift(wrapper: StoredMessage, inside: bytes, last: int) -> int:
    """Return the number to add to inner offsets: 0 for producers' sets, whose wrapper has offset 0."""
    if wrapper.magic == 0:
        return 0
    (relative,) = INT64.unpack_from(inside, last)
    return max(0, wrapper.offset - int(relative))


def _bounds(data: bytes, magic: int) -> Iterator[tuple[int, int]]:
    start, end = 0, len(data)
    smallest = SMALLEST[magic]
    while start < end:
        if end - start < LENGTH_START + smallest:
            raise CorruptRecords("a compressed message set that ends within a message")
        (size,) = _FIELD_SIZE.unpack_from(data, start + 8)
        stop = start + LENGTH_START + size
        if data[start + CRC_START] != magic:
            raise InvalidRecords(f"a message of magic {data[start + CRC_START]} inside of one of magic {magic}")
        if size < smallest or stop > end:
            raise CorruptRecords(f"a message of {size} bytes inside of a compressed set with {end - start} left")
        yield start, stop
        start = stop


def encode_message(
    magic: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None, attributes: int = 0
) -> bytes:
    try:
        stamp = INT64.pack(timestamp) if magic else b""
        body = b"%c%c%b%b%b" % (magic, attributes, stamp, _encode_field(key), _encode_field(value))
        return b"%b%b%b%b" % (
            INT64.pack(offset),
            _FIELD_SIZE.pack(len(body) + _CRC.size),
            _CRC.pack(crc32(body)),
            body,
        )
    except struct.error as error:
        raise InvalidRecords(f"a record that its format cannot hold: {error}") from None


def _encode_field(field: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if field is None else _FIELD_SIZE.pack(len(field)) + field


def build_message_set(
    records: Iterable[Record],
    magic: int,
    base_offset: int | None,
    codec: Codec,
    level: int | None,
    attributes: int,
    append_time: int,
) -> bytes:
    reject_zstd_before_v2(codec, magic)
    messages = bytearray()
    first, delta, newest = base_offset, -1, NO_TIMESTAMP
    relative = magic == 1 and codec is not Codec.NONE
    for index, record in enumerate(records):
        _reject_headers(record, magic)
        first = record.offset if first is None else first
        delta = next_offset_delta(record.offset - first, delta) if base_offset is None else index
        timestamp = append_time if attributes & TIMESTAMP_TYPE else record.timestamp
        newest = max(newest, timestamp)
        offset = delta if relative else first + delta
        messages += encode_message(magic, offset, timestamp, record.key, record.value, attributes)
    if codec is Codec.NONE:
        return bytes(messages)
    if first is None or not messages:
        raise InvalidRecords("a compressed message set needs at least one record")
    value = compress(codec, messages, level, magic)
    return encode_message(magic, first + delta, newest, None, value, attributes | codec)


def _reject_headers(record: Record, magic: int) -> None:
    if record.headers:
        raise InvalidRecords(f"message format v{magic} has no headers", ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
