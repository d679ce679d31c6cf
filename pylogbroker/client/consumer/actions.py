"""Actions of a group's member, ordered by its state machine. Each result goes to the method named.

The state machine is `member_state_machine` in a classic group, `epoch_member` in one whose coordinator assigns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import attrs

from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.join_group import JoinGroupResponseMember

Partitions = frozenset[TopicPartition]
TopicIdPartition = tuple[UUID, int]


@attrs.frozen
class FindCoordinator:
    """Results: `found`, `request_rejected`."""


@attrs.frozen
class SendJoin:
    """Result: `joined`. `given` is the last assignment, `owned` the partitions still read."""

    member_id: str
    owned: Partitions
    given: Partitions
    generation: int
    reason: str


@attrs.frozen
class RunAssignor:
    """Result: `assignor_done`."""

    protocol: str
    members: Sequence[JoinGroupResponseMember]


@attrs.frozen
class SendSync:
    """Result: `synced`."""

    member_id: str
    generation: int
    protocol: str
    shares: Mapping[str, bytes]


@attrs.frozen
class SendHeartbeat:
    """Result: `heartbeat_answered`."""

    member_id: str
    generation: int


@attrs.frozen
class MemberSubscription:
    """Topics by their names, or those that match a regular expression, which the broker evaluates."""

    names: frozenset[str] = frozenset()
    expression: str | None = None


@attrs.frozen
class SendEpochHeartbeat:
    """Result: `heartbeat_answered`; of a negative epoch `left`.

    None means that a field has not changed. A full heartbeat has all fields.
    """

    member_id: str
    epoch: int
    subscription: MemberSubscription | None = None
    owned: frozenset[TopicIdPartition] | None = None
    is_full: bool = False


@attrs.frozen
class LookUpTopics:
    """Result: `topics_named`."""

    topic_ids: frozenset[UUID]


@attrs.frozen
class Revoke:
    """Result: `revoked`. Do not commit `lost` partitions: other members have them already."""

    partitions: Partitions
    lost: bool


@attrs.frozen
class Assign:
    partitions: Partitions


@attrs.frozen
class SendLeave:
    """Result: `left`."""

    member_id: str


@attrs.frozen
class ReportFailure:
    """Report the end of the membership to the user."""

    error: Exception


Action = (
    FindCoordinator
    | SendJoin
    | RunAssignor
    | SendSync
    | SendHeartbeat
    | SendEpochHeartbeat
    | LookUpTopics
    | Revoke
    | Assign
    | SendLeave
    | ReportFailure
)
Actions = list[Action]
