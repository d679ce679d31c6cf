"""Actions of a group member, as `member_state_machine` orders them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.join_group import JoinGroupResponseMember

Partitions = frozenset[TopicPartition]


@attrs.frozen
class FindCoordinator:
    """Look for the coordinator; then call `found` or `request_rejected`."""


@attrs.frozen
class SendJoin:
    """Send JoinGroup; then call `joined`. `given` is the last assignment, `owned` the partitions still read."""

    member_id: str
    owned: Partitions
    given: Partitions
    generation: int
    reason: str


@attrs.frozen
class RunAssignor:
    """Run the assignor; then call `assignor_done`."""

    protocol: str
    members: Sequence[JoinGroupResponseMember]


@attrs.frozen
class SendSync:
    """Send SyncGroup; then call `synced`."""

    member_id: str
    generation: int
    protocol: str
    shares: Mapping[str, bytes]


@attrs.frozen
class SendHeartbeat:
    """Send a heartbeat; then call `heartbeat_answered`."""

    member_id: str
    generation: int


@attrs.frozen
class Revoke:
    """Stop reading; then call `revoked`. Do not commit `lost` partitions: other members have them already."""

    partitions: Partitions
    lost: bool


@attrs.frozen
class Assign:
    partitions: Partitions


@attrs.frozen
class SendLeave:
    """Send LeaveGroup; then call `left`."""

    member_id: str


@attrs.frozen
class ReportFailure:
    """Report the error to the user: membership has ended."""

    error: Exception


Action = (
    FindCoordinator | SendJoin | RunAssignor | SendSync | SendHeartbeat | Revoke | Assign | SendLeave | ReportFailure
)
Actions = list[Action]
