"""The values that all message formats share: a codec, a kind of timestamp, a record."""

from __future__ import annotations

from enum import IntEnum

import attrs

NO_TIMESTAMP = -1


class Codec(IntEnum):
    """How an entry's records are compressed: bits 0 to 2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Whose clock an entry's timestamps come from: bit 3 of its attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


Header = tuple[str, bytes | None]


@attrs.frozen
class Record:
    """One record, of whatever format: `timestamp` is in milliseconds since 1970, -1 where the format has none (v0)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
