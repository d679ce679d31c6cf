"""Actions of a group member, ordered by `member_state_machine`. Each result goes to the method named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.join_group import JoinGroupResponseMember

Partitions = frozenset[TopicPartition]


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
    FindCoordinator | SendJoin | RunAssignor | SendSync | SendHeartbeat | Revoke | Assign | SendLeave | ReportFailure
)
Actions = list[Action]
