"""What is asked of the coordinator and what it answers, free of any wire version."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pylogbroker.coordinators import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from pylogbroker.errors import ErrorCode

Protocols = tuple[tuple[str, bytes], ...]  # names by falling preference, each with the member's metadata for it

NO_MEMBER_ID = ""
NO_GENERATION = -1


@attrs.frozen
class Join:
    """JoinGroup. `needs_known_id`: from version 4 on, a dynamic member is given its id before it is let in."""

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
    can_skip_assignment: bool = False  # from version 9 on


@attrs.frozen
class JoinedMember:
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@attrs.frozen
class JoinResult:
    """The answer to a join; `members` is for the leader alone."""

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
    """SyncGroup; `assignments` by member id comes from the leader alone."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = attrs.field(factory=dict)


@attrs.frozen
class SyncResult:
    """The answer to a sync."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@attrs.frozen
class Heartbeat:
    """Heartbeat."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


@attrs.frozen
class Leaving:
    """A member that leaves. An administrator names a static one by its instance id alone."""

    member_id: str
    instance_id: str | None = None


@attrs.frozen
class LeaveResult:
    """The answer to a leave: the whole request's error, and each member's, in the order asked."""

    error: ErrorCode
    members: tuple[ErrorCode, ...] = ()


@attrs.frozen
class CommittedOffset:
    """What a group remembers of a partition. `expires`: only if the client said how long to keep it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed: int = -1  # ms
    expires: int | None = None  # ms


@attrs.frozen
class Commit:
    """OffsetCommit; generation -1 and no member id: a consumer that does without membership."""

    group_id: str
    generation: int
    member_id: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    instance_id: str | None = None


@attrs.frozen
class TransactionalCommit(Commit):
    """TxnOffsetCommit: offsets that count once the producer's transaction is committed.

    Older producers tell nothing of the group, which is generation -1 and no member id too.
    """

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


CommitResult = dict[TopicPartition, ErrorCode]


@attrs.frozen
class FetchResult:
    """The answer to an offset fetch: what was found of each partition (None: nothing), or its error."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, CommittedOffset | ErrorCode | None] = attrs.field(factory=dict)


@attrs.frozen
class DeleteOffsetsResult:
    """The answer to an offset deletion."""

    error: ErrorCode
    partitions: Mapping[TopicPartition, ErrorCode] = attrs.field(factory=dict)


@attrs.frozen
class MemberDescription:
    """A member as DescribeGroups shows it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@attrs.frozen
class GroupDescription:
    """A group as DescribeGroups shows it."""

    error: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[MemberDescription, ...] = ()


@attrs.frozen
class GroupOverview:
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
