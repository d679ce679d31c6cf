"""Broker with one replica: carries out the actions of the state machines, and answers requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import BrokerRegistration
from pylogbroker.replication import (
    Actions,
    AdvanceHighWatermark,
    AdvanceLogStart,
    AlterIsr,
    AppendFetched,
    AssignEpoch,
    EpochEnd,
    FetchedData,
    FetchFrom,
    FindEpochEnd,
    FollowerFetch,
    FollowerReplica,
    FollowerRequest,
    IsrChange,
    LeaderOffset,
    LeaderReplica,
    PartitionReplica,
    ReplicationSettings,
    RestartAt,
    TruncateTo,
)
from tests.replication.model_controller import Push
from tests.replication.model_log import ModelLog, Record


@attrs.frozen(eq=False)
class Question:
    """A follower's request on its way to the leader."""

    sender: int
    sender_life: int
    role: FollowerReplica
    leader: int
    broker_epoch: int
    request: FollowerRequest


@attrs.frozen(eq=False)
class Answer:
    question: Question
    data: FetchedData | EpochEnd | int | ErrorCode
    records: Sequence[Record] = ()


class Surroundings(Protocol):
    """Network and observer of brokers."""

    now_ms: int
    carries_broker_epochs: bool

    def records_per_fetch(self) -> int: ...

    def send(self, question: Question) -> None: ...

    def alter_isr(self, broker: ModelBroker, role: LeaderReplica, change: IsrChange) -> None: ...

    def visible(self, broker: ModelBroker) -> None:
        """Check what consumers can read now."""


class ModelBroker:
    def __init__(
        self,
        broker_id: int,
        surroundings: Surroundings,
        settings: ReplicationSettings,
        flushes: bool,
        replica_class: type[PartitionReplica],
    ) -> None:
        self.id = broker_id
        self.log = ModelLog(flushes)
        self.life = 0
        self.runs = False
        self.epoch = -1
        self.controller_epoch = 0
        self.brokers: Mapping[int, BrokerRegistration] = {}
        self.replica: PartitionReplica | None = None
        self.checkpoint = 0
        """High watermark on the disk."""
        self._surroundings = surroundings
        self._settings = settings
        self._replica_class = replica_class

    @property
    def leader(self) -> LeaderReplica | None:
        role = self.replica.role if self.replica is not None else None
        return role if isinstance(role, LeaderReplica) else None

    @property
    def follower(self) -> FollowerReplica | None:
        role = self.replica.role if self.replica is not None else None
        return role if isinstance(role, FollowerReplica) else None

    # Life

    def start(self, epoch: int) -> None:
        self.runs = True
        self.epoch = epoch
        self.controller_epoch = 0
        self.replica = None

    def stop(self, log_end_offset: int) -> None:
        """Lose the records from an offset on, and all that is in memory."""
        self.life += 1
        self.runs = False
        self.replica = None
        self.log.restart(log_end_offset)

    # Controller

    def take(self, push: Push) -> None:
        if push.broker_epoch < self.epoch or push.controller_epoch < self.controller_epoch:
            return
        self.controller_epoch = push.controller_epoch
        self.brokers = push.brokers
        replica = self.replica
        if push.stop:
            if replica is None or replica.may_stop(push.state.leader_epoch):
                self.replica = None
                self.checkpoint = 0
                self.log.restart_at(0)
            return
        if replica is None:
            if self.id not in push.state.replicas:
                return
            replica = self._replica_class(self.id, self.log, self._settings, push.brokers, self.checkpoint)
            self.replica = replica
        now = self._surroundings.now_ms
        self.perform(replica.brokers_changed(push.brokers, now))
        self.perform(replica.apply(push.state, now))

    # Requests

    def poll(self) -> None:
        """Send the follower's next request."""
        role, replica = self.follower, self.replica
        if role is None or replica is None:
            return
        request = role.next_request(self._surroundings.now_ms)
        if request is not None:
            self._surroundings.send(Question(self.id, self.life, role, replica.leader, self.epoch, request))

    def answer(self, question: Question) -> Answer:
        leader = self.leader
        if leader is None:
            return self.reject(question)
        request = question.request
        try:
            if isinstance(request, FetchFrom):
                return self._answer_fetch(leader, question, request)
            if isinstance(request, FindEpochEnd):
                leader.check_leader_epoch(request.leader_epoch)
                return Answer(question, EpochEnd(*self.log.end_offset_for_epoch(request.epoch)))
            leader.check_leader_epoch(request.leader_epoch)
        except KafkaError as error:
            return Answer(question, error.code)
        is_end = request.of is LeaderOffset.LOG_END
        return Answer(question, self.log.log_end_offset if is_end else self.log.log_start_offset)

    def reject(self, question: Question) -> Answer:
        return Answer(question, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _answer_fetch(self, leader: LeaderReplica, question: Question, request: FetchFrom) -> Answer:
        epoch = question.broker_epoch if self._surroundings.carries_broker_epochs else -1
        fetch = FollowerFetch(
            question.sender,
            request.leader_epoch,
            request.offset,
            request.last_fetched_epoch,
            request.log_start_offset,
            epoch,
        )
        outcome = leader.fetch(fetch, self._surroundings.now_ms)
        self.perform(outcome.actions)
        records: Sequence[Record] = ()
        if outcome.diverging is None:
            end = request.offset + self._surroundings.records_per_fetch()
            records = self.log.records[request.offset : end]
        data = FetchedData(leader.high_watermark, self.log.log_start_offset, bool(records), outcome.diverging)
        return Answer(question, data, records)

    def receive(self, answer: Answer) -> None:
        question, data = answer.question, answer.data
        role = question.role
        if question.sender_life != self.life or role is not self.follower:
            return
        if isinstance(data, FetchedData):
            self.perform(role.fetched(question.request, data), answer.records)
        elif isinstance(data, EpochEnd):
            self.perform(role.epoch_end_found(question.request, data))
        elif isinstance(data, ErrorCode):
            role.request_failed(question.request, data, self._surroundings.now_ms)
        else:
            self.perform(role.offset_listed(question.request, data))

    # Log

    def sync(self) -> None:
        self.log.sync()
        if self.follower is not None:
            self.follower.synced()
        elif self.leader is not None:
            self.perform(self.leader.log_advanced(self._surroundings.now_ms))

    def tick(self) -> None:
        if self.leader is not None:
            self.perform(self.leader.tick(self._surroundings.now_ms))

    def append(self, records: Sequence[Record]) -> None:
        assert self.leader is not None
        self.log.append(records)
        self.perform(self.leader.log_advanced(self._surroundings.now_ms))

    def perform(self, actions: Actions, records: Sequence[Record] = ()) -> None:
        log = self.log
        for action in actions:
            if isinstance(action, AdvanceHighWatermark):
                self._surroundings.visible(self)
            elif isinstance(action, AppendFetched):
                assert self.follower is not None
                log.append(records)
                log.last_epoch_forgotten = False
                self.perform(self.follower.appended())
            elif isinstance(action, AlterIsr):
                assert self.leader is not None
                self._surroundings.alter_isr(self, self.leader, action.change)
            elif isinstance(action, AdvanceLogStart):
                log.start_at(action.offset)
            elif isinstance(action, AssignEpoch):
                log.assign_epoch(action.epoch)
            else:
                assert self.follower is not None
                if isinstance(action, TruncateTo):
                    assert action.offset <= log.log_end_offset
                    log.truncate_to(action.offset)
                else:
                    assert isinstance(action, RestartAt)
                    log.restart_at(action.offset)
                self.follower.truncated()
