"""A member of a group.

The metadata of protocol type `consumer` begins, in every version, with

    int16 version, int32 count, count x (int16 length, topic), ...
"""

from __future__ import annotations

import struct
from collections.abc import Collection

import attrs

from pylogbroker.coordinators import Reply, Timer
from pylogbroker.groups.requests import JoinResult, MemberDescription, Protocols, SyncResult

PROTOCOL_TYPE = "consumer"

_HEADER = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


@attrs.define(eq=False, repr=False)
class Member:
    """A client that retries has one waiting request of a kind, the newest."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False  # was in no generation yet
    join: Reply[JoinResult] | None = None
    sync: Reply[SyncResult] | None = None
    session: Timer | None = None

    @property
    def is_waiting(self) -> bool:
        """Return whether a request waits: the client sends no heartbeats then."""
        return self.join is not None or self.sync is not None

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)

    def describe(self, protocol: str | None) -> MemberDescription:
        return MemberDescription(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.metadata(protocol) if protocol is not None else b"",
            self.assignment if protocol is not None else b"",
        )


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return None if the metadata is no subscription."""
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
