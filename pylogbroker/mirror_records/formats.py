"""Records in the topics of MirrorMaker 2, as values and as bytes.

A mirror from cluster A to cluster B has these topics, all compacted:

| topic                         | on     | partitions | record                                                       |
|-------------------------------|--------|------------|--------------------------------------------------------------|
| `mm2-offsets.A.internal`      | B      | 25         | how far a partition of A is copied (`positions`)             |
| `A.checkpoints.internal`      | B      | 1          | `Checkpoint`: a group's committed offset, in both clusters   |
| `mm2-offset-syncs.B.internal` | A      | 1          | `OffsetSync`: offsets of the same record in both clusters    |
| `heartbeats`                  | B      | 1          | `MirrorHeartbeat`: the mirror runs; names A, B and the time   |

`offset-syncs.topic.location=target` puts the syncs on B, as `mm2-offset-syncs.A.internal`. With its default settings,
MirrorMaker also writes heartbeats that name B and A to `heartbeats` on A, and copies these to `A.heartbeats` on B.
From that its clients see that records of A arrive.

Bytes, as MirrorMaker 3.9 wrote them, with integers in big-endian order and strings after an int16 length:

    OffsetSync  key    0006 6f7264657273  00000000           "orders", 0
                value  0000000000000095  0000000000000095    upstream 149, downstream 149
    Checkpoint  key    0007 62696c6c696e67  0008 412e6f7264657273  00000001        "billing", "A.orders", 1
                value  0000  00000000000000a0  00000000000000a1  0004 6e6f7465     version, upstream, downstream, "note"
    Heartbeat   key    0001 41  0001 42                      "A", "B"
                value  0000  000001a229c4151e                version, timestamp in ms

The topic of a checkpoint is the one in B, that of a sync the one in A. An offset sync names one record; the offset of a
checkpoint is that of the next record to read.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Self

import attrs

from pylogbroker.errors import CorruptRecords

__all__ = ["Checkpoint", "MirrorHeartbeat", "OffsetSync"]

HEARTBEATS_TOPIC: Final = "heartbeats"

_VERSION: Final = 0
_STRING_BYTES_MAX: Final = (1 << 15) - 1
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_TWO_OFFSETS: Final = Struct(">qq")


def offset_syncs_topic(other: str) -> str:
    """Return a cluster's topic for the syncs of a mirror from or to the `other` one."""
    return f"mm2-offset-syncs.{other}.internal"


def checkpoints_topic(source: str) -> str:
    """Return the target's topic for the checkpoints of a source's groups."""
    return f"{source}.checkpoints.internal"


@attrs.frozen
class OffsetSync:
    """Offsets of one record in both clusters."""

    topic: str
    partition: int
    upstream: int
    downstream: int

    def key(self) -> bytes:
        return _string(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        return _TWO_OFFSETS.pack(self.upstream, self.downstream)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raise CorruptRecords if invalid."""
        key_fields = _Fields("the key of an offset sync", key)
        topic, partition = key_fields.string(), key_fields.partition()
        key_fields.end()
        value_fields = _Fields("the value of an offset sync", value)
        sync = cls(topic, partition, value_fields.offset(), value_fields.offset())
        value_fields.end()
        return sync


@attrs.frozen
class Checkpoint:
    """Committed offset of a group, in the source and translated; `topic` is the target's."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    def key(self) -> bytes:
        return _string(self.group) + _string(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        return _INT16.pack(_VERSION) + _TWO_OFFSETS.pack(self.upstream, self.downstream) + _string(self.metadata)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raise CorruptRecords if invalid."""
        key_fields = _Fields("the key of a checkpoint", key)
        group, topic, partition = key_fields.string(), key_fields.string(), key_fields.partition()
        key_fields.end()
        value_fields = _Fields("the value of a checkpoint", value)
        value_fields.version()
        upstream, downstream = value_fields.offset(), value_fields.offset()
        checkpoint = cls(group, topic, partition, upstream, downstream, value_fields.string())
        value_fields.end()
        return checkpoint


@attrs.frozen
class MirrorHeartbeat:
    """A sign of life of a mirror, with its time in ms."""

    source: str
    target: str
    timestamp: int

    def key(self) -> bytes:
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        return _INT16.pack(_VERSION) + _INT64.pack(self.timestamp)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raise CorruptRecords if invalid."""
        key_fields = _Fields("the key of a heartbeat", key)
        source, target = key_fields.string(), key_fields.string()
        key_fields.end()
        value_fields = _Fields("the value of a heartbeat", value)
        value_fields.version()
        heartbeat = cls(source, target, value_fields.offset())
        value_fields.end()
        return heartbeat


def _string(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > _STRING_BYTES_MAX:
        raise CorruptRecords(f"a string of {len(encoded)} bytes is too long: {text:.100}...")
    return _INT16.pack(len(encoded)) + encoded


class _Fields:
    """Reads the fields of `what` from its bytes; raises CorruptRecords where these do not fit."""

    def __init__(self, what: str, content: bytes | None) -> None:
        if content is None:
            raise CorruptRecords(f"{what} is missing")
        self._what = what
        self._content = content
        self._position = 0

    def version(self) -> None:
        version = self._number(_INT16)
        if version != _VERSION:
            raise CorruptRecords(f"{self._what} has version {version}; only {_VERSION} is supported")

    def partition(self) -> int:
        return self._not_negative(self._number(_INT32))

    def offset(self) -> int:
        return self._not_negative(self._number(_INT64))

    def string(self) -> str:
        size = self._not_negative(self._number(_INT16))
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise CorruptRecords(f"{self._what} has a string that is not UTF-8") from None

    def end(self) -> None:
        if self._position != len(self._content):
            raise CorruptRecords(f"{self._what} has {len(self._content)} bytes instead of {self._position}")

    def _number(self, form: Struct) -> int:
        number: int = form.unpack(self._take(form.size))[0]
        return number

    def _not_negative(self, number: int) -> int:
        if number < 0:
            raise CorruptRecords(f"{self._what} has a negative number: {number}")
        return number

    def _take(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        if self._position > len(self._content):
            raise CorruptRecords(f"{self._what} has {len(self._content)} bytes, too few")
        return self._content[start : self._position]
