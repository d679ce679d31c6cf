"""The topics in a consumer's subscription, the metadata of protocol type `consumer`.

    int16 version, int32 count, count x (int16 length, topic), ...

Every version begins like version 0, so the rest is not looked at.
"""

from __future__ import annotations

import struct

PROTOCOL_TYPE = "consumer"

_HEADER = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics subscribed to, or None if these bytes are not a subscription."""
    try:
        version, count = _HEADER.unpack_from(metadata)
        return _topics(metadata, count) if version >= 0 and count >= 0 else None
    except (struct.error, UnicodeDecodeError):
        return None


def _topics(metadata: bytes, count: int) -> frozenset[str] | None:
    topics = set()
    position = _HEADER.size
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size + length
        if length < 0 or position > len(metadata):
            return None
        topics.add(metadata[position - length : position].decode())
    return frozenset(topics)
