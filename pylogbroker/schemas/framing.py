"""Which schema content has, as Confluent's serializers say it.

    00  id (4 bytes)  [message indexes]  payload         in the content
    01  GUID (16 bytes)  [message indexes]               in the header __key_schema_id or __value_schema_id

Message indexes are there for Protobuf alone: their count and themselves as zigzag varints. A lone 0 means the first
message of the file. `[1, 0]` is the first message within the second one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, Literal
from uuid import UUID

import attrs

from pylogbroker.schemas.errors import Undecodable

Field = Literal["key", "value"]
HEADERS: Final = {"key": "__key_schema_id", "value": "__value_schema_id"}
_ID: Final = struct.Struct(">bI")
_ID_MAGIC: Final = 0
_GUID_MAGIC: Final = 1
_GUID_BYTES: Final = 17
_INDEXES_MAX: Final = 100
_VARINT_BYTES_MAX: Final = 10


@attrs.frozen
class FramedContent:
    """Content behind its prefix; `indexes` are the bytes of message indexes, if a header has them."""

    schema: int | UUID
    payload: bytes
    indexes: bytes | None = None


def frame_of(content: bytes, headers: Iterable[tuple[str, bytes | None]], field: Field) -> FramedContent | None:
    """Return the frame of a key or value; None for content without one."""
    for name, header in headers:
        if name == HEADERS[field] and header and len(header) >= _GUID_BYTES and header[0] == _GUID_MAGIC:
            return FramedContent(UUID(bytes=header[1:_GUID_BYTES]), content, header[_GUID_BYTES:])
    if len(content) >= _ID.size and content[0] == _ID_MAGIC:
        return FramedContent(_ID.unpack_from(content)[1], content[_ID.size :])
    return None


def framed(schema_id: int, body: bytes) -> bytes:
    """Return content with the prefix that names its schema."""
    return _ID.pack(_ID_MAGIC, schema_id) + body


def encoded_indexes(indexes: Sequence[int]) -> bytes:
    """Return message indexes as they stand before a payload of Protobuf."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(zigzag_varint(number) for number in (len(indexes), *indexes))


def decoded_indexes(data: bytes) -> tuple[list[int], int]:
    """Return message indexes, and where they end; raise Undecodable."""
    count, at = read_zigzag(data, 0)
    if not 0 <= count <= _INDEXES_MAX:
        raise Undecodable(f"it names {count} message indexes: this is no Protobuf of Confluent's serializers")
    indexes = []
    for _ in range(count):
        index, at = read_zigzag(data, at)
        indexes.append(index)
    return indexes or [0], at


def zigzag_varint(number: int) -> bytes:
    """Return an integer of 64 bits as Avro and Confluent write it."""
    left = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer, and where it ends; raise Undecodable."""
    number = shift = 0
    for place in range(at, min(at + _VARINT_BYTES_MAX, len(data))):
        byte = data[place]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                break
            return (number >> 1) ^ -(number & 1), place + 1
        shift += 7
    raise Undecodable(f"the number at byte {at} is cut, or longer than 64 bits")
