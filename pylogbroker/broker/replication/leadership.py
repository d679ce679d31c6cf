"""Leadership of a partition with several replicas: its state machine, and what the actions do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

import attrs

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.replication import (
    Actions,
    AdvanceHighWatermark,
    AlterIsr,
    AssignEpoch,
    EpochEnd,
    FollowerFetch,
    IsrChange,
    LeaderReplica,
)


class IsrProposals(Protocol):
    def propose(self, leadership: Leadership, change: IsrChange, delay_ms: int) -> None:
        """Ask the controller; report the answer to `isr_altered` or `isr_change_failed`."""


@attrs.define(eq=False, repr=False)
class Leadership:
    """Implements `Replication` of the partition."""

    partition: Partition
    leader: LeaderReplica
    topic_id: UUID
    _now_ms: Callable[[], int]
    _proposals: IsrProposals

    @property
    def offset(self) -> int:
        """High watermark that the log and the followers allow now."""
        self.leader.log_advanced(self._now_ms())
        return self.leader.high_watermark

    @property
    def low_watermark(self) -> int:
        return self.leader.low_watermark

    def check_enough_replicas(self) -> None:
        self.leader.check_enough_replicas()

    def check_replicated(self) -> None:
        if self.leader.completion(0) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            raise KafkaError(
                "the records are written, but fewer replicas than min.insync.replicas have them",
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            )

    def set_min_insync_replicas(self, minimum: int) -> None:
        if minimum != self.leader.settings.min_insync_replicas:
            self.leader.settings = attrs.evolve(self.leader.settings, min_insync_replicas=minimum)
            self.tick()

    def is_in_sync(self, replica_id: int) -> bool:
        return replica_id in self.leader.isr.committed

    def check_offsets_available(self) -> None:
        self.leader.check_offsets_available()

    def preferred_read_replica(self, fetch_offset: int, client_rack: str) -> int | None:
        return self.leader.preferred_read_replica(fetch_offset, client_rack, self._now_ms())

    def follower_fetched(self, fetch: FollowerFetch) -> EpochEnd | None:
        outcome = self.leader.fetch(fetch, self._now_ms())
        self.run(outcome.actions)
        return outcome.diverging

    def follower_waited(self, replica_id: int, fetch_ms: int) -> None:
        self.leader.follower_waited(replica_id, fetch_ms)

    def tick(self) -> None:
        self.run(self.leader.tick(self._now_ms()))

    def isr_altered(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        self.run(self.leader.isr_altered(isr, partition_epoch, self._now_ms()))

    def isr_change_failed(self, change: IsrChange, error: ErrorCode) -> None:
        self.run(self.leader.isr_change_failed(change, error, self._now_ms()))

    def run(self, actions: Actions) -> None:
        for action in actions:
            match action:
                case AssignEpoch(epoch):
                    self.partition.log.assign_epoch(epoch)
                case AdvanceHighWatermark():
                    self.partition.high_watermark.advance()
                case AlterIsr(change, delay_ms):
                    self._proposals.propose(self, change, delay_ms)
                case _:
                    raise AssertionError(f"no action of a leader: {action}")
        purgatory = self.partition.purgatory
        if Mark.LOW_WATERMARK in purgatory.delayed:
            purgatory.reached(Mark.LOW_WATERMARK, self.leader.low_watermark)
