"""Leader replica of a partition in one leader epoch: high watermark, in-sync replicas, checks of requests.

    event                               method             actions
    ----------------------------------  -----------------  -------------------------------------------------------
    leadership begins                   begin              AssignEpoch, AdvanceHighWatermark
    records were appended or synced     log_advanced       AdvanceHighWatermark
    a follower fetches                  fetch              AlterIsr (expansion), AdvanceHighWatermark
    its fetch is repeated unread        follower_waited    (none)
    time passes                         tick               AlterIsr (shrinking), AdvanceHighWatermark
    the controller answers AlterIsr     isr_altered        AdvanceHighWatermark
                                        isr_change_failed  AdvanceHighWatermark, or AlterIsr again
    a state of the same leader epoch    update             AdvanceHighWatermark
    brokers register or go              brokers_changed    AdvanceHighWatermark

A later leader epoch is another LeaderReplica, also on the same broker: nothing is known of its followers before they
fetch in that epoch. Answers go to the object that asked.

The high watermark is the smallest offset of the leader's written part and of the followers that are in the maximal ISR,
or may join it soon. It only rises, and stays while the ISR is smaller than min.insync.replicas (KAFKA-15583).

Sources: KIP-101, KIP-207, KIP-320, KIP-392, KIP-497, KIP-595, KIP-903; Kafka's classes Partition and Replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange
from pylogbroker.metadata.image import BrokerRegistration, PartitionState
from pylogbroker.replication.actions import (
    NO_ACTIONS,
    Actions,
    AdvanceHighWatermark,
    AlterIsr,
    AssignEpoch,
    IsrChange,
)
from pylogbroker.replication.follower_fetch import FollowerFetch
from pylogbroker.replication.isr import InSyncReplicas
from pylogbroker.replication.log import UNKNOWN_EPOCH, EpochEnd, ReplicaLog
from pylogbroker.replication.preferred_read_replica import ReadReplica, select_read_replica
from pylogbroker.replication.progress import UNKNOWN_BROKER_EPOCH, FollowerProgress
from pylogbroker.replication.settings import ReplicationSettings

ISR_RETRY_MS: Final = 50


class FetchOutcome(NamedTuple):
    """Checked fetch: the answer has the records from the fetch offset on, or where the logs diverge."""

    diverging: EpochEnd | None = None
    actions: Actions = NO_ACTIONS


class LeaderReplica:
    """State machine of one leader epoch. `brokers` are alive and not shutting down."""

    def __init__(
        self,
        broker_id: int,
        log: ReplicaLog,
        state: PartitionState,
        brokers: Mapping[int, BrokerRegistration],
        settings: ReplicationSettings,
        high_watermark: int,
        now_ms: int,
    ) -> None:
        self.broker_id = broker_id
        self.settings = settings
        self.leader_epoch = state.leader_epoch
        self.epoch_start_offset = log.log_end_offset
        self.high_watermark = high_watermark
        self.isr = InSyncReplicas(state.isr, state.partition_epoch)
        self._log = log
        self._brokers = brokers
        self._followers: dict[int, FollowerProgress] = {}
        self._assign(state, now_ms)

    def begin(self, now_ms: int) -> Actions:
        return (AssignEpoch(self.leader_epoch), *self._advance_high_watermark(now_ms))

    # Events

    def log_advanced(self, now_ms: int) -> Actions:
        """Handle that records were appended or synced."""
        return self._advance_high_watermark(now_ms)

    def fetch(self, fetch: FollowerFetch, now_ms: int) -> FetchOutcome:
        """Check a follower's fetch, and count the records below its fetch offset as replicated.

        Raise KafkaError with the code to answer.
        """
        self.check_leader_epoch(fetch.leader_epoch)
        progress = self._followers.get(fetch.replica_id)
        if progress is None:
            detail = f"the leader does not know replica {fetch.replica_id} yet, or no longer"
            raise KafkaError(detail, ErrorCode.UNKNOWN_LEADER_EPOCH)
        self._check_broker_epoch(fetch, progress)
        diverging = self._diverging(fetch)
        if diverging is not None:
            return FetchOutcome(diverging)
        log = self._log
        start, end = log.log_start_offset, log.log_end_offset
        if not start <= fetch.fetch_offset <= end:
            raise OffsetOutOfRange(f"offset {fetch.fetch_offset} is not within {start} to {end}")
        progress.fetched(fetch.fetch_offset, fetch.log_start_offset, fetch.broker_epoch, end, now_ms)
        expansion = self._expand_isr(fetch.replica_id, progress)
        return FetchOutcome(None, expansion + self._advance_high_watermark(now_ms))

    def follower_waited(self, replica_id: int, fetch_ms: int) -> None:
        """Note a fetch at the same offset as the last one of a follower."""
        progress = self._followers.get(replica_id)
        if progress is not None:
            progress.waited(fetch_ms)

    def tick(self, now_ms: int) -> Actions:
        """Remove lagging followers from the ISR; call at least twice per replica.lag.time.max.ms."""
        return (*self._shrink_isr(now_ms), *self._advance_high_watermark(now_ms))

    def isr_altered(self, isr: tuple[int, ...], partition_epoch: int, now_ms: int) -> Actions:
        """Handle the ISR of a successful AlterPartition."""
        return self._advance_high_watermark(now_ms) if self.isr.commit(isr, partition_epoch) else NO_ACTIONS

    def isr_change_failed(self, change: IsrChange, error: ErrorCode, now_ms: int) -> Actions:
        """Handle an error of AlterPartition, also of the network."""
        if self.isr.failed(change, error):
            return (AlterIsr(change, ISR_RETRY_MS),)
        return self._advance_high_watermark(now_ms)

    def update(self, state: PartitionState, now_ms: int) -> Actions:
        """Take a newer state of the same leader epoch."""
        if not self.isr.commit(state.isr, state.partition_epoch):
            return NO_ACTIONS
        self._assign(state, now_ms)
        return self._advance_high_watermark(now_ms)

    def brokers_changed(self, brokers: Mapping[int, BrokerRegistration], now_ms: int) -> Actions:
        self._brokers = brokers
        return self._advance_high_watermark(now_ms)

    # Checks of requests

    def check_leader_epoch(self, leader_epoch: int) -> None:
        """Raise an error for another leader epoch than ours (KIP-320); -1 stands for unknown."""
        if leader_epoch in (UNKNOWN_EPOCH, self.leader_epoch):
            return
        is_older = leader_epoch < self.leader_epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(f"the leader epoch is {self.leader_epoch}, the request has {leader_epoch}", code)

    def check_enough_replicas(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS if records with acks=all may not be appended."""
        in_sync, needed = len(self.isr.committed), self.min_insync_replicas
        if in_sync < needed:
            detail = f"{in_sync} replicas are in sync, min.insync.replicas asks for {needed}"
            raise KafkaError(detail, ErrorCode.NOT_ENOUGH_REPLICAS)

    def completion(self, end_offset: int) -> ErrorCode | None:
        """Return the code to answer to acks=all for records that end before `end_offset`; None while they wait."""
        if self.high_watermark < end_offset:
            return None
        if len(self.isr.maximal) < self.min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def check_offsets_available(self) -> None:
        """Raise OFFSET_NOT_AVAILABLE while a client would get an earlier latest offset than before (KIP-207)."""
        if self.high_watermark < self.epoch_start_offset:
            detail = f"the high watermark has not reached the leader epoch's start, {self.epoch_start_offset}"
            raise KafkaError(detail, ErrorCode.OFFSET_NOT_AVAILABLE)

    @property
    def min_insync_replicas(self) -> int:
        """Return min.insync.replicas, or the number of replicas if there are fewer."""
        return min(self.settings.min_insync_replicas, len(self._followers) + 1)

    @property
    def low_watermark(self) -> int:
        """Return the offset before which all live replicas have deleted their records; -1 if one's is unknown."""
        starts = [progress.log_start_offset for id_, progress in self._followers.items() if id_ in self._brokers]
        return min(self._log.log_start_offset, *starts) if starts else self._log.log_start_offset

    def preferred_read_replica(self, fetch_offset: int, client_rack: str, now_ms: int) -> int | None:
        """Return the follower that a consumer should read from; None if the leader should serve it."""
        log, brokers = self._log, self._brokers
        own = brokers.get(self.broker_id)
        leader = ReadReplica(self.broker_id, own.rack if own else None, log.log_end_offset, 0)
        followers = [
            ReadReplica(id_, brokers[id_].rack, progress.log_end_offset, now_ms - (progress.last_caught_up_ms or 0))
            for id_, progress in self._followers.items()
            if id_ in self.isr.committed and id_ in brokers
            if progress.log_start_offset <= fetch_offset <= progress.log_end_offset
        ]
        chosen = select_read_replica(client_rack, leader, followers)
        return None if chosen is leader else chosen.broker_id

    # Rules

    def _assign(self, state: PartitionState, now_ms: int) -> None:
        """Keep what is known of assigned replicas alone: one that comes again may have lost its log."""
        former = self._followers
        self._followers = {
            id_: former.get(id_) or FollowerProgress(now_ms if id_ in state.isr else None)
            for id_ in state.replicas
            if id_ != self.broker_id
        }

    def _check_broker_epoch(self, fetch: FollowerFetch, progress: FollowerProgress) -> None:
        """Reject a fetch of a broker's former life (KIP-903)."""
        if fetch.broker_epoch == UNKNOWN_BROKER_EPOCH:
            return
        broker = self._brokers.get(fetch.replica_id)
        newest = progress.broker_epoch if broker is None else max(progress.broker_epoch, broker.epoch)
        if fetch.broker_epoch < newest:
            detail = f"broker {fetch.replica_id} has epoch {newest}, the fetch {fetch.broker_epoch}"
            raise KafkaError(detail, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _diverging(self, fetch: FollowerFetch) -> EpochEnd | None:
        """Return where the leader's log left the follower's; None if it has the follower's last record."""
        if fetch.last_fetched_epoch == UNKNOWN_EPOCH:
            return None
        epoch_end = EpochEnd(*self._log.end_offset_for_epoch(fetch.last_fetched_epoch))
        if epoch_end.epoch == UNKNOWN_EPOCH:
            raise OffsetOutOfRange(f"the end of leader epoch {fetch.last_fetched_epoch} is unknown")
        if fetch.fetch_offset < self._log.log_start_offset:
            raise OffsetOutOfRange(f"offset {fetch.fetch_offset} is before {self._log.log_start_offset}")
        if epoch_end.epoch < fetch.last_fetched_epoch or epoch_end.end_offset < fetch.fetch_offset:
            return epoch_end
        return None

    def _is_eligible(self, replica_id: int, progress: FollowerProgress) -> bool:
        """Return whether a follower is alive, and has fetched in that life, or in one not yet known here."""
        broker = self._brokers.get(replica_id)
        if broker is None:
            return False
        return progress.broker_epoch == UNKNOWN_BROKER_EPOCH or progress.broker_epoch >= broker.epoch

    def _is_in_sync(self, progress: FollowerProgress) -> bool:
        """Return whether a follower has all committed records, and no others before them.

        A new leader's high watermark may be too low, but none was higher than the start of its epoch. Leader epochs
        before the log start are unknown here, so a follower's records of that part may be others. It drops them with
        the next answer.
        """
        has_committed = progress.log_end_offset >= max(self.high_watermark, self.epoch_start_offset)
        return has_committed and progress.log_start_offset >= self._log.log_start_offset

    def _expand_isr(self, replica_id: int, progress: FollowerProgress) -> Actions:
        isr = self.isr
        if isr.pending is not None or replica_id in isr.committed:
            return NO_ACTIONS
        if not self._is_in_sync(progress) or not self._is_eligible(replica_id, progress):
            return NO_ACTIONS
        followers = self._followers
        members = tuple(id_ for id_ in isr.committed if id_ == self.broker_id or id_ in followers)
        return self._propose((*members, replica_id))

    def _shrink_isr(self, now_ms: int) -> Actions:
        if self.isr.pending is not None:
            return NO_ACTIONS
        end, lag = self._log.log_end_offset, self.settings.replica_lag_time_max_ms
        followers = self._followers
        isr = tuple(
            id_
            for id_ in self.isr.committed
            if id_ == self.broker_id or (id_ in followers and followers[id_].is_caught_up(end, now_ms, lag))
        )
        return NO_ACTIONS if isr == self.isr.committed else self._propose(isr)

    def _propose(self, isr: tuple[int, ...]) -> Actions:
        change = IsrChange(self.leader_epoch, self.isr.partition_epoch, isr, tuple(map(self._broker_epoch, isr)))
        self.isr.propose(change)
        return (AlterIsr(change),)

    def _broker_epoch(self, replica_id: int) -> int:
        follower = self._followers.get(replica_id)
        return UNKNOWN_BROKER_EPOCH if follower is None else follower.broker_epoch

    def _holds_high_watermark(self, replica_id: int, progress: FollowerProgress, now_ms: int) -> bool:
        """Return whether the high watermark waits for a follower: a member of the ISR, or one about to join it."""
        if replica_id in self.isr.maximal:
            return True
        end, lag = self._log.log_end_offset, self.settings.replica_lag_time_max_ms
        return progress.is_caught_up(end, now_ms, lag) and self._is_eligible(replica_id, progress)

    def _advance_high_watermark(self, now_ms: int) -> Actions:
        in_sync = len(self.isr.committed)
        if in_sync < self.settings.min_insync_replicas and in_sync <= len(self._followers):
            return NO_ACTIONS  # fewer than `min_insync_replicas`, without the cost of a call for each record
        offset = self._log.synced_offset
        for replica_id, progress in self._followers.items():
            if progress.log_end_offset < offset and self._holds_high_watermark(replica_id, progress, now_ms):
                offset = progress.log_end_offset
        if offset <= self.high_watermark:
            return NO_ACTIONS
        self.high_watermark = offset
        return (AdvanceHighWatermark(offset),)
