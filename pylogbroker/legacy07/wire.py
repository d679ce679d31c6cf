"""Protocol of Kafka 0.7, both directions.

A request is `length:4 type:2 body`, a response `length:4 error:2 ...`. Lengths count the bytes after them, numbers are
big-endian, and `str` is a 2-byte length and that many bytes.

    type  request        body                                                  response, after the error
    0     produce        topic:str partition:4 size:4 set                      no response
    1     fetch          topic:str partition:4 offset:8 max_size:4             set
    2     multifetch     count:2, then each like a fetch                       for each `length:4 error:2 set`
    3     multiproduce   count:2, then each like a produce                     no response
    4     offsets        topic:str partition:4 time:8 max_count:4              count:4 offsets:8 each, descending

A set is a sequence of messages (`records.messages`); a response's last one may be truncated. Responses have no number
and keep the order of requests.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from pylogbroker.long_loops import at_once, give_way
from pylogbroker.wire.errors import EncodingError, WireError
from pylogbroker.wire.schema import Buffer, Chunk

LATEST: Final = -1
EARLIEST: Final = -2
ANY_PARTITION: Final = -1
"""The broker chooses a produce's partition."""

RESPONSE_BYTES_MAX: Final = 0x7FFFFFFF

_ERROR_SIZE: Final = 2
HEAD_SIZE: Final = 4 + _ERROR_SIZE

_STEP_PARTS: Final = 100
"""Parts of a long request or response between two steps."""

_DESCRIBED_PARTS_MAX: Final = 100
"""Parts of a request that is decoded on a listener of the other protocol: anybody may send 30,000, for a log line."""

_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_HEAD = struct.Struct(">ih")
_COUNTED = struct.Struct(">ihi")
MULTI_FETCH, MULTI_PRODUCE = 2, 3

T = TypeVar("T")


class Legacy07ErrorCode(IntEnum):
    UNKNOWN = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    INVALID_MESSAGE = 2
    WRONG_PARTITION = 3
    INVALID_FETCH_SIZE = 4


@attrs.frozen
class Production:
    topic: str
    partition: int
    messages: Buffer


@attrs.frozen
class FetchRange:
    topic: str
    partition: int
    offset: int
    max_size: int


@attrs.frozen
class Produce:
    part: Production


@attrs.frozen
class Fetch:
    part: FetchRange


@attrs.frozen
class MultiFetch:
    parts: Sequence[FetchRange]


@attrs.frozen
class MultiProduce:
    parts: Sequence[Production]


@attrs.frozen
class Offsets:
    """Base offsets of segments written before `time` (milliseconds), newest first.

    LATEST and EARLIEST are the log's end and start.
    """

    topic: str
    partition: int
    time: int
    max_count: int


Legacy07Request: TypeAlias = Produce | Fetch | MultiFetch | MultiProduce | Offsets


# Requests


def has_parts(frame: memoryview) -> bool:
    """Return whether a frame is a multifetch or multiproduce."""
    return int.from_bytes(frame[:2], "big") in (MULTI_FETCH, MULTI_PRODUCE)


def decode_legacy07_request(frame: memoryview) -> Legacy07Request:
    """Decode a frame without its length; raise WireError."""
    return at_once(decode_in_steps(frame))


async def decode_in_steps(frame: memoryview) -> Legacy07Request:
    """Like `decode_legacy07_request`; give way after each `_STEP_PARTS`."""
    reader = _Reader(frame)
    number = reader.int16()
    if number in _PART_READERS:
        request = await _parts_in_steps(reader, *_PART_READERS[number])
    elif number in _READERS:
        request = _READERS[number](reader)
    else:
        raise WireError(f"request type {number} is none of 0 to 4")
    if reader.left:
        raise WireError(f"{reader.left} bytes are left behind a request of type {number}")
    return request


async def _parts_in_steps(
    reader: _Reader, made: Callable[[list[T]], Legacy07Request], read: Callable[[_Reader], T]
) -> Legacy07Request:
    parts: list[T] = []
    for number in range(reader.count()):
        if number % _STEP_PARTS == 0:
            await give_way()
        parts.append(read(reader))
    return made(parts)


def encode_legacy07_request(request: Legacy07Request) -> bytes:
    """Return a request with its length; raise EncodingError if it cannot be expressed."""
    try:
        body = _body(request)
    except struct.error as error:
        raise EncodingError(f"{type(request).__name__}: {error}") from None
    return _INT32.pack(len(body)) + body


def _body(request: Legacy07Request) -> bytes:
    match request:
        case Produce(part):
            return _INT16.pack(0) + _production(part)
        case Fetch(part):
            return _INT16.pack(1) + _range(part)
        case MultiFetch(ranges):
            return b"".join((_INT16.pack(2), _INT16.pack(len(ranges)), *map(_range, ranges)))
        case MultiProduce(productions):
            return b"".join((_INT16.pack(3), _INT16.pack(len(productions)), *map(_production, productions)))
        case Offsets(topic, partition, time, max_count):
            place = _place(topic, partition)
            return b"".join((_INT16.pack(4), place, _INT64.pack(time), _INT32.pack(max_count)))


def _place(topic: str, partition: int) -> bytes:
    name = topic.encode()
    return _INT16.pack(len(name)) + name + _INT32.pack(partition)


def _production(part: Production) -> bytes:
    return b"".join((_place(part.topic, part.partition), _INT32.pack(len(part.messages)), part.messages))


def _range(part: FetchRange) -> bytes:
    return _place(part.topic, part.partition) + _INT64.pack(part.offset) + _INT32.pack(part.max_size)


@attrs.define
class _Reader:
    """Reader of fields; raises WireError at the frame's end."""

    _frame: memoryview
    _position: int = 0

    @property
    def left(self) -> int:
        return len(self._frame) - self._position

    def take(self, size: int) -> memoryview:
        if not 0 <= size <= self.left:
            raise WireError(f"a field of {size} bytes where {self.left} are left")
        start = self._position
        self._position += size
        return self._frame[start : self._position]

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def text(self) -> str:
        try:
            return str(self.take(self.int16()), "utf-8")
        except UnicodeDecodeError:
            raise WireError("a topic's name is not UTF-8") from None

    def production(self) -> Production:
        return Production(self.text(), self.int32(), self.take(self.int32()))

    def range(self) -> FetchRange:
        return FetchRange(self.text(), self.int32(), self.int64(), self.int32())

    def count(self) -> int:
        number = self.int16()
        if number < 0:
            raise WireError(f"{number} parts of a request")
        return number


_READERS: Final[dict[int, Callable[[_Reader], Legacy07Request]]] = {
    0: lambda reader: Produce(reader.production()),
    1: lambda reader: Fetch(reader.range()),
    4: lambda reader: Offsets(reader.text(), reader.int32(), reader.int64(), reader.int32()),
}
_PART_READERS: Final[dict[int, tuple[Callable[[list[Any]], Legacy07Request], Callable[[_Reader], Any]]]] = {
    MULTI_FETCH: (MultiFetch, _Reader.range),
    MULTI_PRODUCE: (MultiProduce, _Reader.production),
}


# Answers


def encode_set(error: Legacy07ErrorCode, messages: Chunk = b"") -> list[Chunk]:
    return [_HEAD.pack(_ERROR_SIZE + len(messages), error), messages]


async def encode_sets(parts: Sequence[tuple[Legacy07ErrorCode, Chunk]]) -> list[Chunk]:
    """Return a response of several sets; give way after each `_STEP_PARTS`.

    Bytes are joined: the transport handles each chunk.
    """
    chunks: list[Chunk] = [b""]
    joined, size = bytearray(), _ERROR_SIZE
    for number, (error, messages) in enumerate(parts):
        if number % _STEP_PARTS == 0:
            await give_way()
        joined += _HEAD.pack(_ERROR_SIZE + len(messages), error)
        size += HEAD_SIZE + len(messages)
        if isinstance(messages, bytes | bytearray | memoryview):
            joined += messages
        else:
            chunks += joined, messages
            joined = bytearray()
    chunks.append(joined)
    chunks[0] = _HEAD.pack(size, Legacy07ErrorCode.NONE)
    return chunks


def encode_offsets(error: Legacy07ErrorCode, offsets: Sequence[int] = ()) -> list[Chunk]:
    size = _ERROR_SIZE + _INT32.size + _INT64.size * len(offsets)
    return [_COUNTED.pack(size, error, len(offsets)), struct.pack(f">{len(offsets)}q", *offsets)]


def decode_set(frame: Buffer) -> tuple[int, memoryview]:
    """Return error and set of a frame without its length."""
    reader = _Reader(memoryview(frame))
    return reader.int16(), reader.take(reader.left)


def decode_sets(frame: Buffer) -> tuple[int, list[tuple[int, memoryview]]]:
    """Return a multifetch's error, and error and set of each part."""
    reader = _Reader(memoryview(frame))
    error, parts = reader.int16(), []
    while reader.left:
        parts.append(decode_set(reader.take(reader.int32())))
    return error, parts


def decode_offsets(frame: Buffer) -> tuple[int, list[int]]:
    reader = _Reader(memoryview(frame))
    error, count = reader.int16(), reader.int32()
    if count * _INT64.size != reader.left:
        raise WireError(f"{count} offsets in {reader.left} bytes")
    return error, [reader.int64() for _ in range(count)]


# Recognition


def describe_legacy07_request(frame: memoryview) -> str | None:
    """Describe a frame that resembles a request of 0.7; else None, also for one of very many parts."""
    if has_parts(frame) and not 0 <= int.from_bytes(frame[2:4], "big", signed=True) <= _DESCRIBED_PARTS_MAX:
        return None
    try:
        request = decode_legacy07_request(frame)
    except WireError:
        return None
    match request:
        case Produce(part) | Fetch(part) | MultiProduce([part, *_]) | MultiFetch([part, *_]):
            topic = part.topic
        case Offsets():
            topic = request.topic
        case _:
            return None
    if not topic.isprintable():
        return None
    return (
        f"this looks like a request of Kafka 0.7's protocol ({type(request).__name__} of topic {topic!r}), and this "
        "listener speaks the protocol of Kafka 0.8 and later: connect to a SIMPLE listener"
    )
