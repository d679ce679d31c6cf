"""Transactions: records of several partitions, and a group's offsets, that become visible together or not at all.

===========  ====================================================  =================================================
state        what it means                                         what leads on
===========  ====================================================  =================================================
READY        no transaction                                        `begin`
OPEN         records may be sent                                   `commit`, `abort`; a failure makes it BROKEN
BROKEN       something has failed                                  `abort`
ENDING       it is being committed or aborted                      the coordinator's answer: READY
FENCED       another producer has taken over                       nothing
===========  ====================================================  =================================================

A partition is added to the transaction at its coordinator before the first batch for it leaves: as a gate of the
sender, this lets only added lanes through. After a failure the producer takes a new epoch, in which all sequences
begin anew.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.client.cluster import Cluster, Coordinator
from pylogbroker.client.errors import error_of
from pylogbroker.client.producer.accumulator import Accumulator
from pylogbroker.client.producer.errors import Fenced, NeedsAbort, TransactionError
from pylogbroker.client.producer.lane import Lane
from pylogbroker.client.producer.model import GroupMember, Offsets, OffsetToCommit
from pylogbroker.client.producer.options import Options
from pylogbroker.client.producer.sequences import Identity
from pylogbroker.client.retrying import Pauses, retrying
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.wire import Request
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

_FENCING: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_ELSEWHERE: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
_ADD_PARTITIONS_VERSION: Final = 3  # higher ones are for brokers


class State(Enum):
    """Where the producer is; see the module's table."""

    READY = auto()
    OPEN = auto()
    BROKEN = auto()
    ENDING = auto()
    FENCED = auto()


@attrs.define(eq=False)
class Transactions:
    """The transactions of one producer. `resume` is called with lanes that may send now."""

    pauses: Pauses
    cluster: Cluster
    accumulator: Accumulator
    options: Options
    resume: Callable[[list[Lane]], object]
    state: State = State.READY
    cause: BaseException | None = None
    identity: Identity | None = None
    _added: set[Lane] = attrs.Factory(set)
    _wanted: dict[Lane, None] = attrs.Factory(dict)
    _adding: Deferred[None] | None = None
    _began: bool = False  # whether the coordinator knows of a transaction to end
    _renew: bool = False  # whether sequences have to begin anew

    @property
    def id(self) -> str:
        """The transactional id."""
        return self.options.transactional_id or ""

    def admits(self, lane: Lane) -> bool:
        """Whether the lane is part of the transaction; if not, it is added."""
        if lane in self._added:
            return True
        if self.state in (State.OPEN, State.ENDING):
            self._wanted[lane] = None
            if self._adding is None:
                self._adding = Deferred.fromCoroutine(self._add_wanted())
        return False

    @property
    def can_abort(self) -> bool:
        """Whether there is a transaction to abort."""
        return self.state in (State.OPEN, State.BROKEN)

    def check_open(self) -> None:
        """TransactionError unless records may be sent."""
        if self.state is not State.OPEN:
            raise self._refusal("send a record")

    def failed(self, error: BaseException) -> None:
        """Something of the transaction has failed."""
        if _code(error) in _FENCING:
            self._fence(error)
        elif self.state in (State.OPEN, State.ENDING):
            self.state, self.cause = State.BROKEN, error
            self._renew = True

    async def begin(self) -> None:
        """Begin a transaction; the first time, shut out producers with the same id, and abort what they left open."""
        if self.state is not State.READY:
            raise self._refusal("begin a transaction")
        if self.identity is None:
            await self._initialize()
        self.state = State.OPEN

    def begin_commit(self) -> None:
        """Take no more records."""
        if self.state is not State.OPEN:
            raise self._refusal("commit")
        self.state = State.ENDING

    async def commit(self) -> None:
        """Commit, now that all records are acknowledged or have failed."""
        if self.state is not State.ENDING:
            raise self._refusal("commit")
        try:
            await self._end(True)
        except PylogbrokerError as error:
            self.failed(error)
            raise

    def begin_abort(self) -> None:
        """Take no more records, and send none."""
        if self.state not in (State.OPEN, State.BROKEN):
            raise self._refusal("abort")
        self.state = State.BROKEN
        self._wanted.clear()

    async def abort(self) -> None:
        """Abort, now that nothing is on its way any more."""
        if self._adding is not None:
            await self._settled()
        try:
            await self._end(False)
        except KafkaError as error:
            if error.code in _FENCING:
                self._fence(error)
            if error.code is not ErrorCode.INVALID_PRODUCER_EPOCH:
                raise
            self._renew = True
        if self._renew:
            await self._initialize()
        self.state, self.cause = State.READY, None

    async def send_offsets(self, offsets: Offsets, member: GroupMember) -> None:
        """Commit a group's offsets as part of the transaction."""
        if self.state is not State.OPEN:
            raise self._refusal("send offsets")
        identity = self._known_identity()
        try:
            self._began = True
            await self._ask(AddOffsetsToTxnRequest(self.id, identity.id, identity.epoch, member.group))
            await self._commit_offsets(offsets, member, identity)
        except PylogbrokerError as error:
            self.failed(error)
            raise

    async def _commit_offsets(self, offsets: Offsets, member: GroupMember, identity: Identity) -> None:
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (topic, partition), given in offsets.items():
            one = given if isinstance(given, OffsetToCommit) else OffsetToCommit(given)
            row = TxnOffsetCommitRequestPartition(partition, one.offset, one.leader_epoch, one.metadata)
            topics.setdefault(topic, TxnOffsetCommitRequestTopic(topic)).partitions.append(row)
        request = TxnOffsetCommitRequest(
            self.id,
            member.group,
            identity.id,
            identity.epoch,
            member.generation,
            member.member_id,
            member.instance_id,
            list(topics.values()),
        )
        await self._ask(request, Coordinator.GROUP, member.group, codes=_offset_codes)

    async def _initialize(self) -> None:
        """Get an id and an epoch, by which all before are shut out."""
        before = self.identity or Identity(-1, -1)
        timeout = int(self.options.transaction_timeout * 1000)
        try:
            response = await self._ask(InitProducerIdRequest(self.id, timeout, before.id, before.epoch))
        except KafkaError as error:
            if error.code in _FENCING or error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                self._fence(error)
            raise
        self.identity = Identity(response.producer_id, response.producer_epoch)
        for lane in self.accumulator.lanes.values():
            lane.adopt(self.identity)
        self._renew = False

    async def _end(self, committed: bool) -> None:
        identity = self._known_identity()
        if self._began:
            await self._ask(EndTxnRequest(self.id, identity.id, identity.epoch, committed))
        self._began = False
        self._added.clear()
        if committed:
            self.state = State.READY

    async def _add_wanted(self) -> None:
        """Add the lanes that are wanted, and those that are by then."""
        try:
            while self._wanted:
                lanes, self._wanted = list(self._wanted), {}
                await self._add(lanes)
                self.resume(lanes)
        except PylogbrokerError as error:
            self._wanted.clear()
            self.failed(error)
            self.resume([])
        finally:
            self._adding = None

    async def _add(self, lanes: list[Lane]) -> None:
        identity = self._known_identity()
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for lane in lanes:
            topics.setdefault(lane.topic, AddPartitionsToTxnTopic(lane.topic)).partitions.append(lane.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=identity.id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=list(topics.values()),
        )
        self._began = True
        await self._ask(request, version=_ADD_PARTITIONS_VERSION, codes=_partition_codes)
        for lane in lanes:
            lane.identity = lane.identity or identity
            self._added.add(lane)

    async def _settled(self) -> None:
        """Wait until no partition is being added."""
        done: Deferred[None] = Deferred()
        if self._adding is not None:
            self._adding.addBoth(lambda _: done.callback(None))
            await done

    async def _ask(
        self,
        request: Request,
        kind: Coordinator = Coordinator.TRANSACTION,
        key: str | None = None,
        *,
        version: int | None = None,
        codes: Callable[[Any], list[int]] = lambda response: [response.error_code],
    ) -> Any:
        """The coordinator's answer; what may pass is waited for, `max.block.ms` at most."""
        where = self.id if key is None else key

        async def work() -> Any:
            try:
                return await self._ask_once(request, kind, where, version, codes)
            except PylogbrokerError as error:
                if _code(error) in _ELSEWHERE or not isinstance(error, KafkaError):
                    self.cluster.forget_coordinator(where, kind)
                raise

        return await retrying(work, self.pauses, self.options.backoff, self.options.patience)

    async def _ask_once(
        self, request: Request, kind: Coordinator, key: str, version: int | None, codes: Callable[[Any], list[int]]
    ) -> Any:
        node = await self.cluster.coordinator(key, kind)
        response = await self.cluster.send(node, request, version=version)
        errors = [error_of(code) for code in codes(response) if code]
        for error in sorted(errors, key=lambda error: error.code.retriable):
            raise error
        return response

    def _known_identity(self) -> Identity:
        if self.identity is None:
            raise self._refusal("go on")
        return self.identity

    def _fence(self, error: BaseException) -> None:
        self.state, self.cause = State.FENCED, error

    def _refusal(self, what: str) -> TransactionError:
        """Why something cannot be done now."""
        texts = {
            State.READY: "no transaction has begun",
            State.OPEN: "a transaction is open",
            State.ENDING: "the transaction is being ended",
            State.BROKEN: f"the transaction has failed and must be aborted: {self.cause}",
            State.FENCED: f"another producer with the id {self.id} has taken over: {self.cause}",
        }
        kind = {State.BROKEN: NeedsAbort, State.FENCED: Fenced}.get(self.state, TransactionError)
        refusal = kind(f"cannot {what}: {texts[self.state]}")
        refusal.__cause__ = self.cause
        return refusal


def _code(error: BaseException) -> ErrorCode | None:
    return error.code if isinstance(error, KafkaError) else None


def _partition_codes(response: Any) -> list[int]:
    topics = response.results_by_topic_v3_and_below
    codes = [row.partition_error_code for topic in topics for row in topic.results_by_partition]
    others = [code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)]
    return others or codes


def _offset_codes(response: Any) -> list[int]:
    return [row.error_code for topic in response.topics for row in topic.partitions]
