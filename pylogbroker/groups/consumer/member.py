"""A member of a consumer group."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pylogbroker.coordinators import Timer, cancel
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.states import STATIC_LEAVE_EPOCH, ReconciliationState
from pylogbroker.groups.requests import Protocols


@attrs.frozen
class ClassicMembership:
    """Membership by JoinGroup and SyncGroup; the protocols have the member's subscription."""

    session_timeout_ms: int
    protocols: Protocols


@attrs.define(eq=False, repr=False)
class ConsumerMember:
    """`assigned` has the epoch at which each partition was assigned; `revoking` is pending revocation.

    `ConsumerGroup` alone changes both, because it knows who holds a partition.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    expression: str | None = None  # a regular expression of topic names
    assignor: str | None = None
    classic: ClassicMembership | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: ReconciliationState = ReconciliationState.STABLE
    assigned: Mapping[TopicIdPartition, int] = attrs.field(factory=dict)
    revoking: Mapping[TopicIdPartition, int] = attrs.field(factory=dict)
    session: Timer | None = None
    rebalance: Timer | None = None  # until it has revoked, or, of a classic member, joined again
    sync: Timer | None = None  # of a classic member

    @property
    def has_left_for_a_moment(self) -> bool:
        """Return whether this static member's client is to come back within its session."""
        return self.epoch == STATIC_LEAVE_EPOCH

    @property
    def gives_place(self) -> bool:
        return self.has_left_for_a_moment or self.classic is not None

    def holds(self) -> set[TopicIdPartition]:
        return {*self.assigned, *self.revoking}

    def assignment_epoch(self, partition: TopicIdPartition) -> int | None:
        """Return the epoch at which the member got a partition that it still holds; None if it does not hold it."""
        return self.assigned.get(partition, self.revoking.get(partition))

    def stop_timers(self) -> None:
        for timer in (self.session, self.rebalance, self.sync):
            cancel(timer)
