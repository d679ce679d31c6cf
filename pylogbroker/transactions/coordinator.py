"""The transaction coordinator."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

import attrs

from pylogbroker.coordinators import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    CoordinatorContext,
    CoordinatorRuntime,
    EventQueue,
    LogPort,
    Reply,
    TopicPartition,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.transactions.additions import Additions
from pylogbroker.transactions.completion import Completion, TransactionTimeout, ignore_timeout
from pylogbroker.transactions.descriptions import describe, select
from pylogbroker.transactions.epoch_bump import EpochBump
from pylogbroker.transactions.initialization import Initialization
from pylogbroker.transactions.metadata import error_of_ending
from pylogbroker.transactions.ports import TransactionPort
from pylogbroker.transactions.record_writer import TransactionRecordWriter
from pylogbroker.transactions.requests import (
    EndResult,
    EndTransaction,
    InitProducerId,
    InitResult,
    TransactionDescription,
    TransactionList,
)
from pylogbroker.transactions.settings import TransactionSettings
from pylogbroker.transactions.shard import ReplayedTransactions, TransactionShardHandler
from pylogbroker.transactions.states import PREPARED, TransactionState
from pylogbroker.transactions.transaction import Addition, Transaction, TransactionShard
from pylogbroker.wire import STRING_BYTES_MAX

_T = TypeVar("_T")


@attrs.define(eq=False, repr=False)
class TransactionCoordinator:
    """Transactional ids of the active shards. The driver loads shards into `runtime` and calls its `tick`."""

    settings: TransactionSettings
    _log_port: LogPort
    _port: TransactionPort
    _on_timeout: Callable[[TransactionTimeout], None] = ignore_timeout
    runtime: CoordinatorRuntime[ReplayedTransactions, TransactionShard] = attrs.field(init=False)
    _events: EventQueue = attrs.field(init=False)
    _writer: TransactionRecordWriter = attrs.field(init=False)
    _completion: Completion = attrs.field(init=False)
    _initialization: Initialization = attrs.field(init=False)
    _epoch_bump: EpochBump = attrs.field(init=False)
    _additions: Additions = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        context = CoordinatorContext(self._log_port)
        self._events = context.events
        self._writer = TransactionRecordWriter(context.writer, self._port)
        self._completion = Completion(
            self.settings.abort_interval_ms,
            self._port,
            context.events,
            context.timers,
            self._writer,
            self._on_timeout,
        )
        self._initialization = Initialization(self._port, context.events, self._writer, self._completion)
        self._epoch_bump = EpochBump(self._port, context.events, self._completion)
        self._additions = Additions(self._writer, self._completion)
        handler = TransactionShardHandler(self.settings, self._writer, self._completion)
        self.runtime = CoordinatorRuntime(self.settings.partitions, context, handler)

    def partition_for(self, transactional_id: str) -> int:
        return self.runtime.partition_for(transactional_id)

    def init_producer_id(self, request: InitProducerId, reply: Reply[InitResult], now_ms: int) -> None:
        with self._events:
            answer = self._queued(reply)
            shard = self._check_init(request) or self._find_shard(request.transactional_id)
            if isinstance(shard, ErrorCode):
                answer(InitResult(shard))
                return
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
        client_version: int = 0,
    ) -> None:
        """Add partitions for a producer that works by a level of transaction.version.

        The partitions that come while others are stored are stored together next.
        """
        with self._events:
            addition = Addition(producer_id, producer_epoch, partitions, client_version, self._queued(reply))
            shard = self._find_shard(transactional_id)
            transaction = None if isinstance(shard, ErrorCode) else shard.transactions.get(transactional_id)
            if isinstance(shard, ErrorCode):
                addition.reply(shard)
            elif transaction is None:
                addition.reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            else:
                self._additions.add(transaction, addition, now_ms)

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return NONE for partitions of the producer's transaction, errors for others."""
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

    def end_for_next(self, request: EndTransaction, reply: Reply[EndResult], now_ms: int) -> None:
        """End a transaction, and reply with the producer id and epoch of the next one (EndTxn 5)."""
        with self._events:
            answer = self._queued(reply)
            shard = self._find_shard(request.transactional_id)
            transaction = None if isinstance(shard, ErrorCode) else shard.transactions.get(request.transactional_id)
            if isinstance(shard, ErrorCode):
                answer(EndResult(shard))
            elif transaction is None:
                answer(EndResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            else:
                self._epoch_bump.end(transaction, request, answer, now_ms)

    def on_completion(self, transactional_id: str, reply: Reply[bool]) -> Callable[[], object] | None:
        """Reply True when the end of a decided transaction is complete; return what cancels that, None without one."""
        shard = self._find_shard(transactional_id)
        transaction = None if isinstance(shard, ErrorCode) else shard.transactions.get(transactional_id)
        if transaction is None or transaction.metadata.state not in PREPARED:
            return None
        transaction.waiting[reply] = None
        return partial(transaction.waiting.pop, reply, None)

    def describe(self, transactional_id: str) -> TransactionDescription:
        shard = self._find_shard(transactional_id)
        if isinstance(shard, ErrorCode):
            return TransactionDescription(shard, transactional_id)
        transaction = shard.transactions.get(transactional_id)
        if transaction is None:
            return TransactionDescription(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
        return describe(transaction)

    async def list(
        self,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        duration_ms: int = -1,
        now_ms: int = 0,
    ) -> TransactionList:
        """List transactional ids in steps."""
        if self.runtime.loading():
            return TransactionList(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        everything = [transaction for shard in self.runtime.shards() for transaction in shard.transactions.values()]
        return await select(everything, states, producer_ids, duration_ms, now_ms)

    def _queued(self, reply: Reply[_T]) -> Reply[_T]:
        return lambda value: self._events.reply(reply, value)

    def _check_init(self, request: InitProducerId) -> ErrorCode:
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            return ErrorCode.INVALID_REQUEST
        if request.transactional_id and not 0 < request.timeout_ms <= self.settings.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ErrorCode.NONE

    def _find_shard(self, transactional_id: str) -> TransactionShard | ErrorCode:
        if not transactional_id or len(transactional_id.encode()) > STRING_BYTES_MAX:
            return ErrorCode.INVALID_REQUEST
        return self.runtime.find(transactional_id)

    def _find_for_producer(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> Transaction | ErrorCode:
        """Return the transactional id, or an error for another than the present producer id and epoch."""
        shard = self._find_shard(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        transaction = shard.transactions.get(transactional_id)
        if transaction is None or transaction.metadata.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if transaction.metadata.producer_epoch != producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return transaction
