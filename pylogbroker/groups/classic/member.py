"""A member of a group: what it told when it joined, and the requests of it that wait for an answer."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from pylogbroker.coordinators import Reply, Timer
from pylogbroker.groups.requests import JoinResult, MemberDescription, Protocols, SyncResult


@attrs.define(eq=False)
class Member:
    """`joins` and `syncs` hold more than one reply when a client asked again; all of them get the one answer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False  # has not been part of a generation yet
    joins: list[Reply[JoinResult]] = attrs.field(factory=list)
    syncs: list[Reply[SyncResult]] = attrs.field(factory=list)
    session: Timer | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a request of it waits, so that no heartbeat can be expected."""
        return bool(self.joins or self.syncs)

    def metadata(self, protocol: str | None) -> bytes:
        """What the member told for this protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Collection[str]) -> str:
        """The first of its protocols that is a candidate."""
        return next(name for name, _ in self.protocols if name in candidates)

    def describe(self, protocol: str | None) -> MemberDescription:
        """The member as shown to administrators; metadata and assignment go with a protocol."""
        return MemberDescription(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.metadata(protocol) if protocol is not None else b"",
            self.assignment if protocol is not None else b"",
        )
