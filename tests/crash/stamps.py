"""Stamps in the records of the crash tests: producer, partition, sequence number, and a checksum of them.

```
value   <producer> <topic> <partition> <sequence> <CRC-32 of the rest, 8 hex digits> <filling>
```

So a record itself shows whether it was sent, and which one it is.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple


class Stamp(NamedTuple):
    """Whose record, and which one of its producer in its partition."""

    producer: str
    topic: str
    partition: int
    sequence: int


class NotStamped(Exception):
    """A value that no producer of the harness sent."""


def value_of(stamp: Stamp, filling: str = "") -> bytes:
    """The value of a record."""
    who = f"{stamp.producer} {stamp.topic} {stamp.partition} {stamp.sequence}"
    return f"{who} {_checksum(who, filling)} {filling}".encode()


def stamp_in(value: bytes | None) -> Stamp:
    """Which record a value is that of; NotStamped if it is none, or not as it was sent."""
    try:
        producer, topic, partition, sequence, checksum, filling = (value or b"").decode().split(" ", 5)
        stamp = Stamp(producer, topic, int(partition), int(sequence))
    except ValueError:
        raise NotStamped(repr(value)) from None
    if checksum != _checksum(f"{producer} {topic} {partition} {sequence}", filling):
        raise NotStamped(repr(value))
    return stamp


def _checksum(who: str, filling: str) -> str:
    return f"{zlib.crc32(f'{who} {filling}'.encode()):08x}"
