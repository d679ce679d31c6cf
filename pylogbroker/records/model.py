"""Values common to all message formats."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

import attrs

NO_TIMESTAMP = -1

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes of frames and files, parsed without a copy."""


def view(buffer: Buffer) -> memoryview:
    return buffer if type(buffer) is memoryview else memoryview(buffer)


class Codec(IntEnum):
    """Bits 0 to 2 of an entry's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Bit 3 of an entry's attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


Header = tuple[str, bytes | None]


@attrs.frozen
class Record:
    """Record of any format; `timestamp` is in milliseconds since 1970, -1 in v0."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
