"""Messages of format 0.7, whose offset is the position of their first byte.

     0          4         5              5 or 6     9 or 10
    +----------+---------+--------------+----------+---------+
    | size 32  | magic 8 | attributes 8 | crc 32   | payload |      attributes: with magic 1 only
    +----------+---------+--------------+----------+---------+

`size` counts what follows it; the CRC-32 covers the payload alone.  Attributes: bits 0 and 1 are the codec, none, gzip
or snappy.  The payload of a compressed message is a whole set of messages, none of which is compressed again.

    position    0            13                60
    log         [ "one"     ][ gzip of a, b   ][ "two" ...      next offset: the last one plus the bytes of its message
    records     0            13, 14            60

A message says nothing of its position: whoever reads it must know where it lies.  It has neither key nor timestamp nor
headers.  Records inside of a compressed message are numbered from its position on, so it must have as many bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import attrs

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords
from pylogbroker.records.buffers import Buffer, view
from pylogbroker.records.checksum import crc32
from pylogbroker.records.compression import MAX_DECOMPRESSED, compress, inflate
from pylogbroker.records.entry import Entry
from pylogbroker.records.model import Codec, Record

SIZE_PREFIX = 4
"""The bytes of the size, which it does not count itself."""

HEADER_SIZES = (9, 10)
"""Where the payload begins, by magic."""

CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY)
"""By the number in the attributes."""

_HEADERS = (struct.Struct(">ibI"), struct.Struct(">ibBI"))
_START = struct.Struct(">ib")
_CODEC = 0x03


def may_be_message(data: Buffer) -> bool:
    """Whether bytes, which may be cut off, look like the start of a message."""
    if len(data) < _START.size:
        return True
    size, magic = _START.unpack_from(data)
    if magic not in (0, 1) or size < HEADER_SIZES[magic] - SIZE_PREFIX:
        return False
    return magic == 0 or len(data) <= _START.size or data[_START.size] & ~_CODEC == 0


@attrs.define(eq=False)
class SimpleMessage(Entry):
    """One message at its position, `base_offset`; `last_offset` is that of its last byte.

    `count` is -1 for a compressed one, and `magic` is 0.7's own.
    """

    @property
    def payload(self) -> memoryview:
        """What the CRC covers."""
        return self.buffer[HEADER_SIZES[self.magic] :]

    @property
    def codec(self) -> Codec:
        """How the set in the payload is compressed; InvalidRecords for a codec that 0.7 does not have."""
        number = self.attributes & _CODEC
        if number >= len(CODECS):
            detail = f"unknown compression type {number}"
            raise InvalidRecords(detail, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        return CODECS[number]

    def check(self) -> None:
        """Compare the CRC; CorruptRecords if it differs."""
        actual = crc32(self.payload)
        if actual != self.crc:
            raise CorruptRecords(
                f"the message at position {self.base_offset} has CRC {actual:#x} instead of {self.crc:#x}"
            )

    def values(self, limit: int = MAX_DECOMPRESSED) -> Iterator[memoryview]:
        """What the message carries, or those inside of it; CorruptRecords, InvalidRecords at what is damaged."""
        codec = self.codec
        if codec is Codec.NONE:
            yield self.payload
            return
        for message in messages(inflate(codec, self.payload, 1, limit), 0):
            if message.attributes & _CODEC:
                raise InvalidRecords("a compressed message inside of a compressed one")
            message.check()
            yield message.payload

    def records(self, limit: int = MAX_DECOMPRESSED) -> Iterator[Record]:
        """The records, numbered from the message's position on."""
        for offset, value in enumerate(self.values(limit), self.base_offset):
            yield Record(offset, -1, None, bytes(value))


def messages(buffer: Buffer, position: int, *, partial: bool = False) -> Iterator[SimpleMessage]:
    """The messages in `buffer`, the first byte of which has `position`.

    CorruptRecords at what cannot be a message, and at a cut-off one at the end, unless `partial`: then it is left out.
    CRCs are not looked at; see `SimpleMessage.check`.
    """
    whole = view(buffer)
    start, end = 0, len(whole)
    while start < end:
        stop = start + whole_size(whole, start, end, position + start)
        if stop > end:
            if partial:
                return
            raise CorruptRecords(f"the last message, of {stop - start} bytes, is cut off after {end - start}")
        yield parse_simple(whole[start:stop], position + start)
        start = stop


def whole_size(buffer: Buffer, start: int, end: int, position: int) -> int:
    """Bytes of the message that begins at `start`, which may be more than are there before `end`."""
    if end - start < _START.size:
        return _START.size
    size, magic = _START.unpack_from(buffer, start)
    if magic not in (0, 1):
        raise CorruptRecords(f"magic {magic} at position {position} is neither 0 nor 1")
    if size < HEADER_SIZES[magic] - SIZE_PREFIX:
        raise CorruptRecords(f"a size of {size} bytes at position {position} is too small for magic {magic}")
    return SIZE_PREFIX + int(size)


def parse_simple(buffer: memoryview, position: int, size: int = -1) -> SimpleMessage:
    """The message that begins with `buffer` and takes `size` bytes, by default all of them.

    Its size and magic are known to be right.
    """
    magic, attributes = buffer[SIZE_PREFIX], 0
    if magic:
        _, _, attributes, crc = _HEADERS[1].unpack_from(buffer)
    else:
        _, _, crc = _HEADERS[0].unpack_from(buffer)
    attributes &= _CODEC
    last = position + (len(buffer) if size < 0 else size) - 1
    return SimpleMessage(buffer, magic, attributes, crc, position, last, -1 if attributes else 1)


def encode_simple(value: Buffer, codec: Codec = Codec.NONE) -> bytes:
    """One message of magic 1 around `value`, which is what `codec` made of a set."""
    return _HEADERS[1].pack(HEADER_SIZES[1] - SIZE_PREFIX + len(value), 1, CODECS.index(codec), crc32(value)) + value


def build_simple(values: Iterable[Buffer], codec: Codec = Codec.NONE, level: int | None = None) -> bytes:
    """A set of messages of magic 1, compressed as one message if a codec is given.

    Not if that had fewer bytes than messages are inside: there would not be a number for each.
    InvalidRecords for a codec that 0.7 does not have.
    """
    if codec not in CODECS:
        raise InvalidRecords(f"0.7 does not have {codec.name}", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    single = [encode_simple(value) for value in values]
    plain = b"".join(single)
    if codec is Codec.NONE or not single:
        return plain
    wrapper = encode_simple(compress(codec, plain, level, 1), codec)
    return wrapper if len(wrapper) >= len(single) else plain
