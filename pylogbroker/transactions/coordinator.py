"""The transaction coordinator: finds the transactional id that a request is for, and lets the right part handle it.

    partition of __transaction_state   requests for its transactional ids are answered
    ---------------------------------  -----------------------------------------------
    not owned                          NOT_COORDINATOR
    loading (`begin_load`)             COORDINATOR_LOAD_IN_PROGRESS
    owned   (`finish_load`)            as the transactional id's state has it
    given up (`unload`)                NOT_COORDINATOR, and so is everything that was waiting

Nothing here reads a clock, a file or a socket. Every call takes the time; whoever drives the coordinator calls `tick`
when `next_deadline` has come, and is told through `on_earlier_deadline` when that is now earlier than before.
`on_timed_out` is told of transactions that are aborted because nobody ended them in time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

import attrs

from pylogbroker.coordinators import EventQueue, Timers, no_wakeup
from pylogbroker.errors import ErrorCode
from pylogbroker.partition_hash import partition_for
from pylogbroker.records import LogEntry
from pylogbroker.transactions.completion import Completion
from pylogbroker.transactions.descriptions import describe, select
from pylogbroker.transactions.expiration import Expiration
from pylogbroker.transactions.initialization import Initialization
from pylogbroker.transactions.log_port import TransactionLogPort, TransactionTimeout, ignore_timeout
from pylogbroker.transactions.metadata import error_of_ending, extended
from pylogbroker.transactions.record_writer import TransactionRecordWriter
from pylogbroker.transactions.replay import TransactionReplay
from pylogbroker.transactions.requests import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    InitProducerId,
    InitResult,
    Reply,
    TopicPartition,
    TransactionDescription,
    TransactionList,
)
from pylogbroker.transactions.settings import TransactionSettings
from pylogbroker.transactions.states import PREPARED, TransactionState
from pylogbroker.transactions.transaction import Shard, Transaction
from pylogbroker.wire import STRING_BYTES_MAX

_T = TypeVar("_T")


@attrs.define(eq=False)
class TransactionCoordinator:
    """All transactional ids of the partitions that are owned, and every request about them."""

    settings: TransactionSettings
    _log_port: TransactionLogPort
    _on_earlier_deadline: Callable[[int], None] = no_wakeup
    _on_timed_out: Callable[[TransactionTimeout], None] = ignore_timeout
    partitions: int = attrs.field(init=False)  # how many `__transaction_state` really has; set before they are loaded
    _events: EventQueue = attrs.field(factory=EventQueue, init=False)
    _timers: Timers = attrs.field(init=False)
    _writer: TransactionRecordWriter = attrs.field(init=False)
    _completion: Completion = attrs.field(init=False)
    _initialization: Initialization = attrs.field(init=False)
    _expiration: Expiration = attrs.field(init=False)
    _active: dict[int, Shard] = attrs.field(factory=dict, init=False)
    _loading: dict[int, TransactionReplay] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.partitions = self.settings.partitions
        self._timers = Timers(self._on_earlier_deadline)
        self._writer = TransactionRecordWriter(self._log_port, self._events)
        interval_ms = self.settings.abort_interval_ms
        self._completion = Completion(
            interval_ms, self._log_port, self._events, self._timers, self._writer, self._on_timed_out
        )
        self._initialization = Initialization(self._log_port, self._events, self._writer, self._completion)
        self._expiration = Expiration(self.settings, self._timers, self._writer)

    # -- partitions ------------------------------------------------------------------------------------------------

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that a transactional id belongs to."""
        return partition_for(transactional_id, self.partitions)

    def begin_load(self, partition: int, coordinator_epoch: int = 0) -> TransactionReplay:
        """This broker becomes the coordinator of a partition, in this leader epoch. Replay its log into what is
        returned, then finish."""
        loading = self._loading[partition] = TransactionReplay(partition, coordinator_epoch)
        return loading

    def finish_load(self, loading: TransactionReplay, now_ms: int) -> None:
        """Everything has been replayed. Nothing happens if the partition was given up in the meantime."""
        if self._loading.get(loading.partition) is not loading:
            return
        del self._loading[loading.partition]
        shard = self._active[loading.partition] = Shard(loading.partition, loading.coordinator_epoch)
        with self._events:
            for name, metadata in loading.replayed.items():
                transaction = shard.transactions[name] = Transaction(name, shard, metadata)
                self._resume(transaction, now_ms)
            self._expiration.begin(shard, now_ms, (loading.partition + 1) / self.partitions)

    def load(
        self, partition: int, entries: Iterable[LogEntry], now_ms: int, coordinator_epoch: int = 0
    ) -> TransactionReplay:
        """Load a partition at once."""
        loading = self.begin_load(partition, coordinator_epoch)
        loading.replay(entries)
        self.finish_load(loading, now_ms)
        return loading

    def unload(self, partition: int, now_ms: int) -> None:
        """This broker is no longer the coordinator of a partition."""
        self._loading.pop(partition, None)
        shard = self._active.pop(partition, None)
        if shard is not None:
            shard.close()

    def close(self, now_ms: int) -> None:
        """Give up all partitions."""
        for partition in [*self._loading, *self._active]:
            self.unload(partition, now_ms)

    def _resume(self, transaction: Transaction, now_ms: int) -> None:
        if transaction.metadata.state is TransactionState.ONGOING:
            self._completion.watch(transaction)
        elif transaction.metadata.state in PREPARED:
            self._completion.resume(transaction, now_ms)

    # -- time ------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When `tick` is next wanted, in ms."""
        return self._timers.next_due()

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        with self._events:
            self._timers.fire(now_ms)

    # -- producers -------------------------------------------------------------------------------------------------

    def init_producer_id(self, request: InitProducerId, reply: Reply[InitResult], now_ms: int) -> None:
        """InitProducerId."""
        with self._events:
            answer = self._queued(reply)
            error = self._check_init(request) or self._check(request.transactional_id)
            if error:
                answer(InitResult(error))
                return
            shard = self._shard(request.transactional_id)
            transaction = shard.transactions.get(request.transactional_id)
            if transaction is None:
                self._initialization.create(shard, request, answer)
            else:
                self._initialization.initialize(transaction, request, answer, now_ms)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        reply: Reply[ErrorCode],
        now_ms: int,
    ) -> None:
        """AddPartitionsToTxn and AddOffsetsToTxn. The first partitions begin the transaction."""
        with self._events:
            answer = self._queued(reply)
            transaction = self._find_for_producer(transactional_id, producer_id, producer_epoch)
            if isinstance(transaction, ErrorCode):
                answer(transaction)
            elif transaction.pending is not None:
                answer(ErrorCode.CONCURRENT_TRANSACTIONS)
            elif _has_all(transaction, partitions):
                answer(ErrorCode.NONE)
            else:
                self._extend(transaction, partitions, answer, now_ms)

    def _extend(
        self, transaction: Transaction, partitions: Collection[TopicPartition], reply: Reply[ErrorCode], now_ms: int
    ) -> None:
        def stored(error: ErrorCode, later_ms: int) -> None:
            if not error:
                self._completion.watch(transaction)
            reply(error)

        self._writer.write(transaction, extended(transaction.metadata, partitions, now_ms), now_ms, stored)

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether the partitions are part of the producer's transaction, so that it may write to them."""
        transaction = self._find_for_producer(transactional_id, producer_id, producer_epoch)
        if isinstance(transaction, ErrorCode):
            return dict.fromkeys(partitions, transaction)
        metadata = transaction.metadata
        if metadata.state in PREPARED:
            return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        return {
            partition: ErrorCode.NONE if partition in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        reply: Reply[ErrorCode],
        now_ms: int,
    ) -> None:
        """EndTxn."""
        with self._events:
            answer = self._queued(reply)
            transaction = self._find_for_producer(transactional_id, producer_id, producer_epoch)
            if isinstance(transaction, ErrorCode):
                answer(transaction)
            elif transaction.pending is not None:
                answer(ErrorCode.CONCURRENT_TRANSACTIONS)
            elif transaction.metadata.state is TransactionState.ONGOING:
                self._completion.end(transaction, committed, now_ms, lambda error, later_ms: answer(error))
            else:
                answer(error_of_ending(transaction.metadata, committed))

    # -- administration --------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> TransactionDescription:
        """DescribeTransactions, of one transactional id."""
        error = self._check(transactional_id)
        if error:
            return TransactionDescription(error, transactional_id)
        transaction = self._shard(transactional_id).transactions.get(transactional_id)
        if transaction is None:
            return TransactionDescription(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
        return describe(transaction)

    def list(
        self,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        duration_ms: int = -1,
        now_ms: int = 0,
    ) -> TransactionList:
        """ListTransactions: all, or those in one of these states, of one of these producer ids, and that have been
        going on for more than `duration_ms`."""
        if self._loading:
            return TransactionList(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        everything = (each for shard in self._active.values() for each in shard.transactions.values())
        return select(everything, states, producer_ids, duration_ms, now_ms)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _queued(self, reply: Reply[_T]) -> Reply[_T]:
        """An answer may make a connection ask the next thing at once, and that must find no transaction half way."""
        return lambda value: self._events.enqueue(reply, value)

    def _check_init(self, request: InitProducerId) -> ErrorCode:
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            return ErrorCode.INVALID_REQUEST
        if request.transactional_id and not 0 < request.timeout_ms <= self.settings.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ErrorCode.NONE

    def _check(self, transactional_id: str) -> ErrorCode:
        if not transactional_id or len(transactional_id.encode()) > STRING_BYTES_MAX:
            return ErrorCode.INVALID_REQUEST
        partition = self.partition_for(transactional_id)
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self._active else ErrorCode.NOT_COORDINATOR

    def _shard(self, transactional_id: str) -> Shard:
        return self._active[self.partition_for(transactional_id)]

    def _find_for_producer(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> Transaction | ErrorCode:
        """The transactional id of a producer that has its present id and epoch."""
        error = self._check(transactional_id)
        if error:
            return error
        transaction = self._shard(transactional_id).transactions.get(transactional_id)
        if transaction is None or transaction.metadata.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if transaction.metadata.producer_epoch != producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return transaction


def _has_all(transaction: Transaction, partitions: Collection[TopicPartition]) -> bool:
    metadata = transaction.metadata
    return metadata.state is TransactionState.ONGOING and metadata.partitions.issuperset(partitions)
