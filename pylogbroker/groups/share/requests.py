"""Requests about share groups, and their results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.partitions import TopicIdPartition

UNKNOWN_OFFSET: Final = -1
JOIN_EPOCH = 0
LEAVE_EPOCH = -1


@attrs.frozen
class ShareHeartbeat:
    """Heartbeat of a member; no topics are "as before"."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: frozenset[str] | None = None
    client_id: str = ""
    client_host: str = ""


@attrs.frozen
class ShareHeartbeatResult:
    """`assignment` is None if it is as in an earlier answer."""

    error: ErrorCode
    text: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: Collection[TopicIdPartition] | None = None


@attrs.frozen
class ShareMemberDescription:
    member_id: str
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: Collection[str]
    assignment: Collection[TopicIdPartition]


@attrs.frozen
class ShareGroupDescription:
    error: ErrorCode
    group_id: str
    text: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[ShareMemberDescription, ...] = ()


@attrs.frozen
class ShareOffset:
    """Offset at which a group starts in a partition, and its lag; -1 if they are not known."""

    start: int = UNKNOWN_OFFSET
    leader_epoch: int = 0
    lag: int = UNKNOWN_OFFSET
    error: ErrorCode = ErrorCode.NONE


@attrs.frozen
class ShareOffsetsResult:
    """Result of a change of offsets; `partitions` and `topics` have those that were named."""

    error: ErrorCode
    text: str | None = None
    partitions: Mapping[TopicIdPartition, ErrorCode] = attrs.field(factory=dict)
