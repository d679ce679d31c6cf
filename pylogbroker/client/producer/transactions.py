"""Transactions: several partitions' records and a group's offsets become visible together or not at all.

    state        meaning                                               transitions
    -----------  ----------------------------------------------------  -------------------------------------------------
    READY        no transaction                                        `begin`: OPEN; the first time BEGINNING
    BEGINNING    a producer id was requested                           response: OPEN
    OPEN         records are accepted                                  `commit`, `abort`; failure: BROKEN
    COMMITTING   flush, then EndTxn                                    response: READY; failure: BROKEN
    BROKEN       part of the transaction has failed                    `abort`
    ABORTING     wait for what is in flight, then EndTxn               response: READY, otherwise BROKEN
    FENCED       another producer has taken over                       none

Any failure breaks the transaction and fails unsent records: no committed one may lack a record. As the sender's gate,
the manager admits only partitions added by the coordinator. After a failure the producer takes a new epoch.

A cluster may have transactions v2 when a transaction begins (KIP-890). Then records and offsets add their partitions
themselves, and the end gives the producer the identity of its next transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from enum import Enum, auto
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from pylogbroker.client.partition_queue import ANONYMOUS, ProducerIdentity
from pylogbroker.client.producer.accumulator import Accumulator
from pylogbroker.client.producer.batch import BatchQueue
from pylogbroker.client.producer.coordinator_client import TransactionCoordinatorClient
from pylogbroker.client.producer.errors import Fenced, NeedsAbort, TransactionAborted, TransactionError
from pylogbroker.client.producer.model import GroupMember, Offsets
from pylogbroker.client.single_flight import SingleFlight
from pylogbroker.client.transaction_requests import PRODUCE_VERSION
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError

log = Logger()

_FENCING: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
# Errors of EndTxn without a transaction.
_NOTHING_TO_END: Final = frozenset(
    {ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)


class TransactionStage(Enum):
    READY = auto()
    BEGINNING = auto()
    OPEN = auto()
    COMMITTING = auto()
    BROKEN = auto()
    ABORTING = auto()
    FENCED = auto()


@attrs.define(eq=False, repr=False)
class TransactionManager:
    """Transactions of one producer.

    `resume` gets partition queues that may send now. `flush` waits until all is acknowledged or has failed,
    `in_flight_done` until nothing is in flight. `reject` fails everything not in flight.
    """

    coordinator: TransactionCoordinatorClient
    accumulator: Accumulator
    resume: Callable[[list[BatchQueue]], object]
    flush: Callable[[], Coroutine[Any, Any, None]]
    in_flight_done: Callable[[], Deferred[None]]
    reject: Callable[[BaseException], object]
    state: TransactionStage = TransactionStage.READY
    cause: BaseException | None = None
    identity: ProducerIdentity | None = None
    _committing: SingleFlight = attrs.Factory(SingleFlight)
    _aborting: SingleFlight = attrs.Factory(SingleFlight)
    _added: set[BatchQueue] = attrs.Factory(set)
    _wanted: dict[BatchQueue, None] = attrs.Factory(dict)
    _adding: bool = False
    _asking: int = 0
    _answered: list[Deferred[None]] = attrs.Factory(list)
    _began: bool = False  # the coordinator may have one to end
    _in_doubt: bool = False  # a commit's outcome is unknown
    _too_late: bool = False  # an abort found that the commit had succeeded
    _renew: bool = False
    _is_v2: bool = False

    # as a gate

    @property
    def produce_version(self) -> int | None:
        return PRODUCE_VERSION if self._is_v2 else None

    def admits(self, queue: BatchQueue) -> bool:
        """Return whether the partition is in the transaction; if not, add it."""
        if queue in self._added:
            return True
        if self.takes_records and self._is_v2:
            self._admit([queue], self._known_identity())
            return True
        if self.takes_records:
            self._wanted[queue] = None
            if not self._adding:
                self._adding = True
                adding = Deferred.fromCoroutine(self._add_wanted())
                adding.addErrback(lambda failure: log.failure("adding partitions to the transaction failed", failure))
        return False

    @property
    def is_open(self) -> bool:
        return self.state is TransactionStage.OPEN

    @property
    def takes_records(self) -> bool:
        return self.state in (TransactionStage.OPEN, TransactionStage.COMMITTING)

    def check_open(self) -> None:
        if self.state is not TransactionStage.OPEN:
            raise self._wrong_stage("send a record")

    def check_taking(self) -> None:
        if not self.takes_records:
            raise self._wrong_stage("send a record")

    def failed(self, error: BaseException) -> None:
        if isinstance(error, KafkaError) and error.code in _FENCING:
            self._fence(error)
        elif self.takes_records:
            self.state, self.cause = TransactionStage.BROKEN, error
            self._renew = True
            self._wanted.clear()
            self.reject(error)

    # calls of the program

    async def begin(self) -> None:
        """Begin; the first time, fence older producers and abort their transaction."""
        if self.state is not TransactionStage.READY:
            raise self._wrong_stage("begin a transaction")
        if self.identity is None or self._renew:
            self.state = TransactionStage.BEGINNING
            try:
                await self._initialize()
            finally:
                if self.state is TransactionStage.BEGINNING:
                    self.state = TransactionStage.READY
        is_v2 = self.coordinator.has_transactions_v2()
        self._is_v2 = self._is_v2 if is_v2 is None else is_v2
        self.state = TransactionStage.OPEN

    def commit(self) -> Deferred[None]:
        return self._committing.run(self._commit)

    def abort(self) -> Deferred[None]:
        return self._aborting.run(self._abort)

    def send_offsets(self, offsets: Offsets, member: GroupMember) -> Deferred[None]:
        return SingleFlight().run(lambda: self._send_offsets(offsets, member))

    async def close(self) -> None:
        """Wait for a running commit or abort, then abort an open transaction."""
        await self._committing.over()
        await self._aborting.over()
        if self.state in (TransactionStage.OPEN, TransactionStage.BROKEN):
            await self.abort()

    # implementation

    async def _commit(self) -> None:
        if self.state is not TransactionStage.OPEN:
            raise self._wrong_stage("commit")
        self.state = TransactionStage.COMMITTING
        try:
            await self.flush()
            await self._quiet()
            if self.state is not TransactionStage.COMMITTING:
                raise self._wrong_stage("commit")
            await self._end(True)
        except Exception as error:
            self.failed(error)
            raise
        self.state = TransactionStage.READY

    async def _abort(self) -> None:
        if self.state not in (TransactionStage.OPEN, TransactionStage.BROKEN):
            raise self._wrong_stage("abort")
        self.state = TransactionStage.ABORTING
        self._wanted.clear()
        self.reject(TransactionAborted("the transaction was aborted"))
        try:
            await self._committing.over()
            await self.in_flight_done()
            await self._quiet()
            if self.state is not TransactionStage.ABORTING:
                raise self._wrong_stage("abort")
            await self._take_back()
            if self._renew or any(queue.is_stuck for queue in self.accumulator.queues.values()):
                await self._initialize()
        finally:
            if self.state is TransactionStage.ABORTING:
                self.state = TransactionStage.BROKEN
        self.state, self.cause = TransactionStage.READY, None
        if self._too_late:
            self._too_late = False
            raise TransactionError("cannot abort: the transaction was committed, although the response was lost")

    async def _take_back(self) -> None:
        try:
            await self._end(False)
        except KafkaError as error:
            self.failed(error)
            if error.code not in _NOTHING_TO_END:
                raise
            self._too_late = self._in_doubt and error.code is ErrorCode.INVALID_TXN_STATE
            self.cause, self._renew = error, True
            self._forget()

    async def _end(self, committed: bool) -> None:
        if self._began:
            self._in_doubt = self._in_doubt or committed
            try:
                await self._end_at_coordinator(committed)
            except KafkaError as error:
                if committed and not error.code.retriable:
                    self._in_doubt = False
                raise
        self._forget()

    async def _end_at_coordinator(self, committed: bool) -> None:
        identity = self._known_identity()
        if not self._is_v2:
            await self.coordinator.end(identity, committed)
            return
        following = await self.coordinator.end_for_next(identity, committed)
        if following is None:
            self._renew = True
        else:
            self._take(following)

    def _forget(self) -> None:
        self._began = self._in_doubt = False
        self._added.clear()

    async def _initialize(self) -> None:
        is_forgotten = _code(self.cause) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        before = ANONYMOUS if self.identity is None or is_forgotten else self.identity
        try:
            identity = await self.coordinator.initialize(before)
        except KafkaError as error:
            if error.code in _FENCING or error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                self._fence(error)
            raise
        self._take(identity)

    def _take(self, identity: ProducerIdentity) -> None:
        """Begin an epoch; nothing is in flight."""
        self.identity = identity
        for queue in self.accumulator.queues.values():
            queue.start_epoch(identity)
        self._renew = False

    async def _send_offsets(self, offsets: Offsets, member: GroupMember) -> None:
        if self.state is not TransactionStage.OPEN:
            raise self._wrong_stage("send offsets")
        self._began = True
        self._asking += 1
        try:
            await self.coordinator.send_offsets(self._known_identity(), offsets, member, self._is_v2)
        except Exception as error:
            self.failed(error)
            raise
        finally:
            self._less_asked()

    async def _add_wanted(self) -> None:
        self._asking += 1
        try:
            while self._wanted:
                queues, self._wanted = list(self._wanted), {}
                await self._add(queues)
                self.resume(queues)
        except PylogbrokerError as error:
            self.failed(error)
        finally:
            self._adding = False
            self._less_asked()

    async def _add(self, queues: list[BatchQueue]) -> None:
        identity = self._known_identity()
        self._began = True
        await self.coordinator.add(identity, [(queue.topic, queue.partition) for queue in queues])
        self._admit(queues, identity)

    def _admit(self, queues: Iterable[BatchQueue], identity: ProducerIdentity) -> None:
        self._began = True
        for queue in queues:
            queue.identity = queue.identity or identity
            self._added.add(queue)

    def _quiet(self) -> Deferred[None]:
        if not self._asking:
            return succeed(None)
        self._answered.append(Deferred())
        return self._answered[-1]

    def _less_asked(self) -> None:
        self._asking -= 1
        if not self._asking:
            answered, self._answered = self._answered, []
            for waiter in answered:
                waiter.callback(None)

    def _known_identity(self) -> ProducerIdentity:
        if self.identity is None:
            raise self._wrong_stage("go on")
        return self.identity

    def _fence(self, error: BaseException) -> None:
        if self.state is not TransactionStage.FENCED:
            self.state, self.cause = TransactionStage.FENCED, error
            self.reject(error)

    def _wrong_stage(self, what: str) -> TransactionError:
        texts = {
            TransactionStage.READY: "no transaction has begun",
            TransactionStage.BEGINNING: "a transaction is about to begin",
            TransactionStage.OPEN: "a transaction is open",
            TransactionStage.COMMITTING: "the transaction is being committed",
            TransactionStage.ABORTING: "the transaction is being aborted",
            TransactionStage.BROKEN: f"the transaction has failed and must be aborted: {self.cause}",
            TransactionStage.FENCED: f"another producer with the id {self.coordinator.id} has taken over, or the "
            f"transaction has taken longer than transaction.timeout.ms: {self.cause}",
        }
        kind = {TransactionStage.BROKEN: NeedsAbort, TransactionStage.FENCED: Fenced}.get(self.state, TransactionError)
        error = kind(f"cannot {what}: {texts[self.state]}")
        error.__cause__ = self.cause
        return error


def _code(error: BaseException | None) -> ErrorCode | None:
    return error.code if isinstance(error, KafkaError) else None
