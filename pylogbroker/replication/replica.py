"""Replica of a partition on one broker: its role follows the partition's states.

    state of the partition                     role
    -----------------------------------------  -----------------------------------------------------------------------
    leader epoch or partition epoch is older   unchanged: the state is outdated
    same leader epoch, newer partition epoch   unchanged; a leader takes assignment and ISR
    later leader epoch, this broker leads      another LeaderReplica
    later leader epoch, another broker leads   another FollowerReplica
    later leader epoch without leader, or      None
    without a replica on this broker

The high watermark goes from role to role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pylogbroker.metadata.image import NO_LEADER, BrokerRegistration, PartitionState
from pylogbroker.replication.actions import NO_ACTIONS, Actions
from pylogbroker.replication.follower import FollowerReplica
from pylogbroker.replication.leader import LeaderReplica
from pylogbroker.replication.log import ReplicaLog
from pylogbroker.replication.settings import ReplicationSettings

NO_EPOCH: Final = -1
_DELETION_EPOCH: Final = -2


class PartitionReplica:
    """Replica on one broker; a test may have other classes of roles."""

    leader_class = LeaderReplica
    follower_class = FollowerReplica

    def __init__(
        self,
        broker_id: int,
        log: ReplicaLog,
        settings: ReplicationSettings,
        brokers: Mapping[int, BrokerRegistration],
        high_watermark: int,
    ) -> None:
        self.broker_id = broker_id
        self.settings = settings
        self.role: LeaderReplica | FollowerReplica | None = None
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.leader = NO_LEADER
        self._log = log
        self._brokers = brokers
        self._high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)

    @property
    def high_watermark(self) -> int:
        return self._high_watermark if self.role is None else self.role.high_watermark

    def apply(self, state: PartitionState, now_ms: int) -> Actions:
        if state.leader_epoch < self.leader_epoch or state.partition_epoch <= self.partition_epoch:
            return NO_ACTIONS
        self.partition_epoch = state.partition_epoch
        if state.leader_epoch == self.leader_epoch:
            return self.role.update(state, now_ms) if isinstance(self.role, LeaderReplica) else NO_ACTIONS
        self.leader_epoch = state.leader_epoch
        self.leader = state.leader
        high_watermark = self._high_watermark = self.high_watermark
        if state.leader == NO_LEADER or self.broker_id not in state.replicas:
            self.role = None
            return NO_ACTIONS
        if state.leader == self.broker_id:
            leader = self.leader_class(
                self.broker_id, self._log, state, self._brokers, self.settings, high_watermark, now_ms
            )
            self.role = leader
            return leader.begin(now_ms)
        follower = self.follower_class(self._log, state.leader_epoch, self.settings, high_watermark)
        self.role = follower
        return follower.begin()

    def brokers_changed(self, brokers: Mapping[int, BrokerRegistration], now_ms: int) -> Actions:
        """Take the live brokers that are not shutting down."""
        self._brokers = brokers
        return self.role.brokers_changed(brokers, now_ms) if isinstance(self.role, LeaderReplica) else NO_ACTIONS

    def may_stop(self, leader_epoch: int) -> bool:
        """Return whether a StopReplica with this epoch holds; -1 and -2 are those of old versions and of deletion."""
        return leader_epoch in (NO_EPOCH, _DELETION_EPOCH) or leader_epoch >= self.leader_epoch
