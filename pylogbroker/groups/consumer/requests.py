"""Requests of members of consumer groups, and their results."""

from __future__ import annotations

from collections.abc import Callable, Collection

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.partitions import TopicIdPartition

MaySee = Callable[[str], bool]
"""Returns whether the client may describe a topic."""


def sees_all(topic: str) -> bool:
    """Return True: there is no authorizer."""
    return True


@attrs.frozen
class MemberHeartbeat:
    """Heartbeat of a member; None is "as before".

    `makes_ids` is of version 0, in which the coordinator gives a member its id.
    """

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: frozenset[str] | None = None
    expression: str | None = None
    assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    client_id: str = ""
    client_host: str = ""
    may_see: MaySee = sees_all
    makes_ids: bool = False

    @property
    def has_subscription(self) -> bool:
        return self.topics is not None or self.expression is not None

    @property
    def is_full(self) -> bool:
        """Return whether the client lost track: it sends all fields, and needs its assignment."""
        return self.rebalance_timeout_ms is not None and self.has_subscription and self.owned is not None


@attrs.frozen
class HeartbeatResult:
    """`assignment` is None if it is as in an earlier answer."""

    error: ErrorCode
    text: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: Collection[TopicIdPartition] | None = None


@attrs.frozen
class ConsumerMemberDescription:
    """`is_classic`: the member uses the classic protocol in a group of KIP-848."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: Collection[str]
    expression: str | None
    assignment: Collection[TopicIdPartition]
    target: Collection[TopicIdPartition]
    is_classic: bool


@attrs.frozen
class ConsumerGroupDescription:
    error: ErrorCode
    group_id: str
    text: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[ConsumerMemberDescription, ...] = ()
