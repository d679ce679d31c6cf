"""Requests and results, for all protocol versions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import attrs

from pylogbroker.coordinators import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from pylogbroker.errors import ErrorCode

Protocols = tuple[tuple[str, bytes], ...]  # names, most preferred first, with metadata

NO_MEMBER_ID = ""
NO_GENERATION = -1


class GroupType(StrEnum):
    """Protocol of a group; the value is the name in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


@attrs.frozen
class Join:
    """`needs_known_id` (since version 4): a dynamic member gets its id first."""

    group_id: str
    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    instance_id: str | None = None
    needs_known_id: bool = False
    can_skip_assignment: bool = False


@attrs.frozen
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@attrs.frozen
class JoinResult:
    """Only the leader gets `members`."""

    error: ErrorCode
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@attrs.frozen
class Sync:
    """Only the leader sends `assignments`, by member id."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = attrs.field(factory=dict)


@attrs.frozen
class SyncResult:
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@attrs.frozen
class Heartbeat:
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


@attrs.frozen
class Leaving:
    """Administrators name a static member by its instance id alone."""

    member_id: str
    instance_id: str | None = None


@attrs.frozen
class LeaveResult:
    error: ErrorCode
    members: tuple[ErrorCode, ...] = ()


@attrs.frozen
class CommittedOffset:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed: int = -1  # ms
    expires: int | None = None  # ms


@attrs.frozen
class Commit:
    """Consumers without membership have generation -1 and no member id.

    In groups of KIP-848 the generation is the member's epoch. Requests before version 9 of OffsetCommit know no epochs.
    """

    group_id: str
    generation: int
    member_id: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    instance_id: str | None = None
    knows_epochs: bool = attrs.field(default=True, kw_only=True)


@attrs.frozen
class TransactionalCommit(Commit):
    """Older producers send neither generation nor member id."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_silent(self) -> bool:
        return self.member_id == NO_MEMBER_ID and self.instance_id is None


CommitResult = dict[TopicPartition, ErrorCode]


@attrs.frozen
class FetchResult:
    """Offset by partition, or None, and errors."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, CommittedOffset | ErrorCode | None] = attrs.field(factory=dict)


@attrs.frozen
class DeleteOffsetsResult:
    error: ErrorCode
    partitions: Mapping[TopicPartition, ErrorCode] = attrs.field(factory=dict)


@attrs.frozen
class MemberDescription:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@attrs.frozen
class GroupDescription:
    error: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[MemberDescription, ...] = ()
    type: GroupType = GroupType.CLASSIC


@attrs.frozen
class GroupOverview:
    group_id: str
    protocol_type: str
    state: str
    type: GroupType = GroupType.CLASSIC
