"""InitProducerId: which producers get which epoch of a transactional id.

    the transactional id           a producer without id and epoch, or with those that it may have
    ----------------------------   ----------------------------------------------------------------------
    is new                         gets a new producer id at epoch 0
    has no open transaction        gets the next epoch; after the last one a new producer id at epoch 0
    has an open transaction        CONCURRENT_TRANSACTIONS; the transaction is aborted, its producer fenced
    is in a transition             CONCURRENT_TRANSACTIONS

Any other producer was fenced before: PRODUCER_FENCED.

An epoch is assigned when its record is synced, whatever the log's settings. Otherwise a power failure could make it
assigned twice: partitions would take the second producer's batches for duplicates. The ends of transactions v2 assign
some epochs without a sync (`epoch_bump`), which are left out here after a load.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pylogbroker.coordinators import EventQueue, Reply
from pylogbroker.errors import ErrorCode
from pylogbroker.transactions.completion import Completion
from pylogbroker.transactions.metadata import TransactionMetadata, initialized, may_initialize, needs_new_id, rotated
from pylogbroker.transactions.ports import TransactionPort
from pylogbroker.transactions.record_writer import TransactionRecordWriter
from pylogbroker.transactions.requests import InitProducerId, InitResult
from pylogbroker.transactions.states import PREPARED, TransactionState
from pylogbroker.transactions.transaction import Transaction, TransactionShard


@attrs.define(eq=False, repr=False)
class Initialization:
    _port: TransactionPort
    _events: EventQueue
    _writer: TransactionRecordWriter
    _completion: Completion

    def create(self, shard: TransactionShard, request: InitProducerId, reply: Reply[InitResult]) -> None:
        def taken(error: ErrorCode, producer_id: int, now_ms: int) -> None:
            if error or not shard.active:
                reply(InitResult(error or ErrorCode.NOT_COORDINATOR))
                return
            transaction = shard.transactions.get(request.transactional_id)
            if transaction is None:  # another producer may have created it
                metadata = TransactionMetadata(producer_id, timeout_ms=request.timeout_ms, updated_ms=now_ms)
                transaction = shard.create(request.transactional_id, metadata)
            self.initialize(transaction, request, reply, now_ms)

        self._port.allocate_producer_id(self._events.as_event(taken))

    def initialize(
        self, transaction: Transaction, request: InitProducerId, reply: Reply[InitResult], now_ms: int
    ) -> None:
        metadata = transaction.metadata
        error = _initialization_error(transaction, request)
        if error:
            reply(InitResult(error))
        elif metadata.state is TransactionState.ONGOING:
            self._completion.fence(transaction, now_ms, _answer_concurrent(reply))
        elif needs_new_id(metadata, request, transaction.epochs_left_out):
            self._rotate(transaction, request, reply)
        else:
            target = initialized(metadata, request, now_ms, transaction.epochs_left_out)
            self._assign(transaction, target, reply, now_ms)

    def _rotate(self, transaction: Transaction, request: InitProducerId, reply: Reply[InitResult]) -> None:
        def taken(error: ErrorCode, producer_id: int, now_ms: int) -> None:
            transaction.pending = None
            if error or not transaction.shard.active:
                reply(InitResult(error or ErrorCode.NOT_COORDINATOR))
            else:
                self._assign(transaction, rotated(transaction.metadata, request, producer_id, now_ms), reply, now_ms)

        transaction.pending = TransactionState.EMPTY
        self._port.allocate_producer_id(self._events.as_event(taken))

    def _assign(
        self, transaction: Transaction, target: TransactionMetadata, reply: Reply[InitResult], now_ms: int
    ) -> None:
        def stored(error: ErrorCode, later_ms: int) -> None:
            if not error:
                transaction.epochs_left_out = 0
            given = InitResult(ErrorCode.NONE, target.producer_id, target.producer_epoch)
            reply(InitResult(error) if error else given)

        self._writer.write(transaction, target, now_ms, stored, on_disk=True)


def _initialization_error(transaction: Transaction, request: InitProducerId) -> ErrorCode:
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if not may_initialize(transaction.metadata, request):
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.metadata.state in PREPARED else ErrorCode.NONE


def _answer_concurrent(reply: Reply[InitResult]) -> Callable[[ErrorCode, int], None]:
    """The producer retries and finds the transaction aborted."""
    return lambda error, now_ms: reply(InitResult(error or ErrorCode.CONCURRENT_TRANSACTIONS))
