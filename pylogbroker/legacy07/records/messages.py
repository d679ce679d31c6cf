"""Messages of Kafka 0.7, which are byte-addressed: a message's offset is the position of its first byte.

     0          4         5              5 or 6     9 or 10
    +----------+---------+--------------+----------+---------+
    | size 32  | magic 8 | attributes 8 | crc 32   | payload |      attributes: with magic 1 only
    +----------+---------+--------------+----------+---------+

`size` counts the bytes after it; the CRC-32 covers the payload. Attributes: bits 0 and 1 are the codec (none, gzip,
snappy). A compressed payload is a set of uncompressed messages.

    position    0            13                60
    log         [ "one"     ][ gzip of a, b   ][ "two" ...      next offset: the last one plus the bytes of its message
    records     0            13, 14            60

There are no keys, timestamps or headers. Inner records have consecutive offsets from their message's position on, so it
needs at least as many bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import attrs

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords
from pylogbroker.records.checksum import crc32
from pylogbroker.records.compression import DECOMPRESSED_BYTES_MAX, compress, inflate
from pylogbroker.records.log_entry import LogEntry
from pylogbroker.records.model import Buffer, Codec, Record, view

SIZE_PREFIX = 4

HEADER_SIZES = (9, 10)
"""Start of the payload, by magic."""

CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY)

_HEADERS = (struct.Struct(">ibI"), struct.Struct(">ibBI"))
_START = struct.Struct(">ib")
_CODEC = 0x03


def may_be_message(data: Buffer) -> bool:
    """Return False if the bytes, perhaps truncated, cannot begin a message."""
    if len(data) < _START.size:
        return True
    size, magic = _START.unpack_from(data)
    if magic not in (0, 1) or size < HEADER_SIZES[magic] - SIZE_PREFIX:
        return False
    return magic == 0 or len(data) <= _START.size or data[_START.size] & ~_CODEC == 0


@attrs.define(eq=False, repr=False)
class Legacy07Message(LogEntry):
    """`base_offset` and `last_offset` are the positions of the first and last byte.

    `count` is -1 for a compressed message; `magic` is 0.7's own.
    """

    @property
    def payload(self) -> memoryview:
        return self.buffer[HEADER_SIZES[self.magic] :]

    @property
    def codec(self) -> Codec:
        """Codec of the payload; raise InvalidRecords if 0.7 lacks it."""
        number = self.attributes & _CODEC
        if number >= len(CODECS):
            detail = f"unknown compression type {number}"
            raise InvalidRecords(detail, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        return CODECS[number]

    def check(self) -> None:
        """Raise CorruptRecords for a wrong CRC."""
        actual = crc32(self.payload)
        if actual != self.crc:
            raise CorruptRecords(
                f"the message at position {self.base_offset} has CRC {actual:#x} instead of {self.crc:#x}"
            )

    def values(self, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[memoryview]:
        """Yield the payload, or inner messages'; raise CorruptRecords or InvalidRecords for damage."""
        codec = self.codec
        if codec is Codec.NONE:
            yield self.payload
            return
        for message in messages(inflate(codec, self.payload, 1, limit), 0):
            if message.attributes & _CODEC:
                raise InvalidRecords("a compressed message inside of a compressed one")
            message.check()
            yield message.payload

    def records(self, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        for offset, value in enumerate(self.values(limit), self.base_offset):
            yield Record(offset, -1, None, bytes(value))


def messages(buffer: Buffer, position: int, *, partial: bool = False) -> Iterator[Legacy07Message]:
    """Iterate over messages in `buffer`, which begins at `position`; CRCs are not checked.

    Raise CorruptRecords for bytes that are no message, and for a truncated last one unless `partial`, which skips it.
    """
    whole = view(buffer)
    start, end = 0, len(whole)
    while start < end:
        stop = start + whole_size(whole, start, end, position + start)
        if stop > end:
            if partial:
                return
            raise CorruptRecords(f"the last message, of {stop - start} bytes, is cut off after {end - start}")
        yield parse_legacy07(whole[start:stop], position + start)
        start = stop


def whole_size(buffer: Buffer, start: int, end: int, position: int) -> int:
    """Return a message's size, even beyond `end`; raise CorruptRecords if it is no message."""
    if end - start < _START.size:
        return _START.size
    size, magic = _START.unpack_from(buffer, start)
    if magic not in (0, 1):
        raise CorruptRecords(f"magic {magic} at position {position} is neither 0 nor 1")
    if size < HEADER_SIZES[magic] - SIZE_PREFIX:
        raise CorruptRecords(f"a size of {size} bytes at position {position} is too small for magic {magic}")
    return SIZE_PREFIX + int(size)


def parse_legacy07(buffer: memoryview, position: int, size: int = -1) -> Legacy07Message:
    """Return the message of `size` bytes, by default all; size and magic must have been checked."""
    magic, attributes = buffer[SIZE_PREFIX], 0
    if magic:
        _, _, attributes, crc = _HEADERS[1].unpack_from(buffer)
    else:
        _, _, crc = _HEADERS[0].unpack_from(buffer)
    attributes &= _CODEC
    last = position + (len(buffer) if size < 0 else size) - 1
    return Legacy07Message(buffer, magic, attributes, crc, position, last, -1 if attributes else 1)


def _encode_legacy07(value: Buffer, codec: Codec = Codec.NONE) -> bytes:
    """Return a message of magic 1; with a codec, `value` is a compressed set."""
    return _HEADERS[1].pack(HEADER_SIZES[1] - SIZE_PREFIX + len(value), 1, CODECS.index(codec), crc32(value)) + value


def build_legacy07(values: Iterable[Buffer], codec: Codec = Codec.NONE, level: int | None = None) -> bytes:
    """Return messages of magic 1, with a codec as one compressed message.

    It stays uncompressed if the compressed message had fewer bytes than records. Raise InvalidRecords if 0.7 lacks the
    codec.
    """
    if codec not in CODECS:
        raise InvalidRecords(f"0.7 does not have {codec.name}", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    single = [_encode_legacy07(value) for value in values]
    plain = b"".join(single)
    if codec is Codec.NONE or not single:
        return plain
    wrapper = _encode_legacy07(compress(codec, plain, level, 1), codec)
    return wrapper if len(wrapper) >= len(single) else plain
