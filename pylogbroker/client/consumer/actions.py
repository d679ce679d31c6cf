"""What a member of a group is to do next, as `membership` says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.join_group import JoinGroupResponseMember

Partitions = frozenset[TopicPartition]


@attrs.frozen
class Find:
    """Look for the coordinator; then `found` or `refused`."""


@attrs.frozen
class Join:
    """Send JoinGroup; then `joined`. `given` is what the last assignment said, `owned` what is not given up."""

    member_id: str
    owned: Partitions
    given: Partitions
    generation: int
    reason: str


@attrs.frozen
class Divide:
    """Ask the assignor of that name; then `divided`."""

    protocol: str
    members: Sequence[JoinGroupResponseMember]


@attrs.frozen
class Sync:
    """Send SyncGroup; then `synced`."""

    member_id: str
    generation: int
    protocol: str
    parts: Mapping[str, bytes]


@attrs.frozen
class Beat:
    """Send a heartbeat; then `beaten`."""

    member_id: str
    generation: int


@attrs.frozen
class GiveUp:
    """Stop reading these; then `given_up`. If they are `lost`, others have them already: commit nothing."""

    partitions: Partitions
    lost: bool


@attrs.frozen
class Take:
    """Begin to read these."""

    partitions: Partitions


@attrs.frozen
class Leave:
    """Send LeaveGroup; then `left`."""

    member_id: str


@attrs.frozen
class Fail:
    """It is over; the user is to be told."""

    error: Exception


Action = Find | Join | Divide | Sync | Beat | GiveUp | Take | Leave | Fail
Actions = list[Action]
