"""Historical bugs of replication, planted into the state machines: the model must find each of them.

Each is a class in the place of the right one; the product has no switch for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from pylogbroker.replication import (
    Actions,
    AdvanceHighWatermark,
    EpochEnd,
    FetchedData,
    FindEpochEnd,
    FollowerFetch,
    FollowerReplica,
    FollowerRequest,
    FollowerState,
    LeaderReplica,
    PartitionReplica,
    TruncateTo,
)
from pylogbroker.replication.log import UNKNOWN_EPOCH
from pylogbroker.replication.progress import UNKNOWN_BROKER_EPOCH, FollowerProgress
from tests.replication.model_broker import Answer, ModelBroker, Question
from tests.replication.model_controller import ModelController
from tests.replication.model_log import ModelLog


class TruncatesToHighWatermark(FollowerReplica):
    """KIP-101: a follower cut its log to its high watermark, and leaders compared no epochs."""

    def begin(self) -> Actions:
        return self._truncate(TruncateTo(self.high_watermark))

    def _last_fetched_epoch(self) -> int:
        return UNKNOWN_EPOCH


class IgnoresMissingEpochs(FollowerReplica):
    """KIP-279: a follower took the leader's end offset for an epoch that it did not have."""

    def epoch_end_found(self, request: FollowerRequest, found: EpochEnd) -> Actions:
        if not self._is_answered(request):
            return ()
        return self._truncate(TruncateTo(min(found.end_offset, self._log.log_end_offset)))


class ChecksNoLeaderEpoch(LeaderReplica):
    """KIP-320: requests of other leader epochs were served."""

    def check_leader_epoch(self, leader_epoch: int) -> None:
        pass


class AnswersBeforeLeadership(ModelBroker):
    """KIP-320: so a broker answered that was not yet the leader of the follower's epoch, and cut its own log later."""

    def reject(self, question: Question) -> Answer:
        request, log = question.request, self.log
        if isinstance(request, FindEpochEnd) and self.follower is not None:
            return Answer(question, EpochEnd(*log.end_offset_for_epoch(request.epoch)))
        return super().reject(question)


class AdmitsBelowEpochStart(LeaderReplica):
    """KAFKA-7128: a new leader's high watermark is too low to decide who has all committed records."""

    def _is_in_sync(self, progress: FollowerProgress) -> bool:
        return progress.log_end_offset >= self.high_watermark


class IgnoresPendingIsr(LeaderReplica):
    """KIP-497: the controller may have stored a larger ISR than its answers say."""

    def _holds_high_watermark(self, replica_id: int, progress: FollowerProgress, now_ms: int) -> bool:
        return replica_id in self.isr.committed


class CountsRemovalAtOnce(LeaderReplica):
    """KIP-497: a removed replica is in the ISR until the controller has stored the smaller one."""

    def _holds_high_watermark(self, replica_id: int, progress: FollowerProgress, now_ms: int) -> bool:
        pending = self.isr.pending
        return replica_id in (self.isr.committed if pending is None else pending.isr)


class ForgetsRestarts(ModelController):
    """KIP-380: a broker that restarted quickly stayed in the ISR, although it may have lost records."""

    def lost(self, current: Mapping[int, int]) -> set[int]:
        return self.known.keys() - current.keys()


class IgnoresBrokerEpochs(LeaderReplica):
    """KIP-903: a fetch of a broker's former life brought it into the ISR."""

    def _check_broker_epoch(self, fetch: FollowerFetch, progress: FollowerProgress) -> None:
        pass

    def _is_eligible(self, replica_id: int, progress: FollowerProgress) -> bool:
        return replica_id in self._brokers

    def _broker_epoch(self, replica_id: int) -> int:
        return UNKNOWN_BROKER_EPOCH


class RaisesHighWatermarkBeforeTruncation(FollowerReplica):
    """KAFKA-14704: the answer with a diverging epoch raised the high watermark over records about to be cut."""

    def fetched(self, request: FollowerRequest, data: FetchedData) -> Actions:
        actions = super().fetched(request, data)
        if data.diverging is None or not actions:
            return actions
        self.high_watermark = max(self.high_watermark, min(data.high_watermark, self._log.log_end_offset))
        return (AdvanceHighWatermark(self.high_watermark), *actions)


class ForgetsLastEpoch(FollowerReplica):
    """KAFKA-15510: after an answer without records the follower did not know its last epoch.

    Kafka read it from the log again in the next leader epoch. Here it stays forgotten until records come.
    """

    def fetched(self, request: FollowerRequest, data: FetchedData) -> Actions:
        assert isinstance(self._log, ModelLog)
        if request is self.in_flight and not data.has_records and data.diverging is None:
            self._log.last_epoch_forgotten = True
        return super().fetched(request, data)

    def _last_fetched_epoch(self) -> int:
        assert isinstance(self._log, ModelLog)
        return UNKNOWN_EPOCH if self._log.last_epoch_forgotten else super()._last_fetched_epoch()


class FetchesUnsynced(FollowerReplica):
    """Trap of `flush.messages`: a fetch offset above what is on the disk."""

    def _fetch_when_written(self) -> None:
        super()._fetch_when_written()
        self.state = FollowerState.FETCHING


def replica(
    leader: type[LeaderReplica] = LeaderReplica, follower: type[FollowerReplica] = FollowerReplica
) -> type[PartitionReplica]:
    return type("MutantReplica", (PartitionReplica,), {"leader_class": leader, "follower_class": follower})


@attrs.frozen
class Mutant:
    """Bug, the setup that shows it, and the number of runs of 1,000 steps that find it."""

    name: str
    runs_max: int
    replica_class: type[PartitionReplica] = PartitionReplica
    controller_class: type[ModelController] = ModelController
    broker_class: type[ModelBroker] = ModelBroker
    setup: Mapping[str, Any] = attrs.field(factory=dict)

    first_seed: int = 1

    @property
    def classes(self) -> tuple[type[PartitionReplica], type[ModelController], type[ModelBroker]]:
        return self.replica_class, self.controller_class, self.broker_class


BEFORE_IBP_27: Mapping[str, Any] = {"truncates_on_fetch": False, "unclean": False}
SINCE_IBP_27: Mapping[str, Any] = {"truncates_on_fetch": True, "unclean": False}
FORMER_LIVES: Mapping[str, Any] = {
    "carries_broker_epochs": True,
    "message_delay": 5,
    "flushes": False,
    "unclean": False,
}

MUTANTS = (
    Mutant("KIP-101", 100, replica(follower=TruncatesToHighWatermark)),
    Mutant("KIP-279", 200, replica(follower=IgnoresMissingEpochs), setup=BEFORE_IBP_27),
    Mutant("KIP-320", 1_000, replica(leader=ChecksNoLeaderEpoch), setup=BEFORE_IBP_27),
    Mutant(
        "KIP-320 truncation",
        500,
        replica(leader=ChecksNoLeaderEpoch),
        broker_class=AnswersBeforeLeadership,
        setup=BEFORE_IBP_27,
    ),
    Mutant("KAFKA-7128", 700, replica(leader=AdmitsBelowEpochStart)),
    Mutant("KIP-497", 150, replica(leader=IgnoresPendingIsr)),
    Mutant("KIP-497 removal", 50, replica(leader=CountsRemovalAtOnce)),
    Mutant("KIP-380", 200, controller_class=ForgetsRestarts),
    Mutant("KIP-903", 6_000, replica(leader=IgnoresBrokerEpochs), setup=FORMER_LIVES, first_seed=683),
    Mutant("KAFKA-14704", 150, replica(follower=RaisesHighWatermarkBeforeTruncation), setup=SINCE_IBP_27),
    Mutant("KAFKA-15510", 200, replica(follower=ForgetsLastEpoch), setup=SINCE_IBP_27),
    Mutant("flush.messages", 500, replica(follower=FetchesUnsynced), setup={"flushes": True}),
)
