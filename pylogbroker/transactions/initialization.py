"""InitProducerId: who may have the next epoch of a transactional id, and which one that is.

    the transactional id           a producer that names no pair, or one that it may name
    ----------------------------   ---------------------------------------------------------------------
    is new                         has a new producer id at epoch 0
    is between transactions        has the next epoch, after the last one a new producer id at epoch 0
    has a transaction going on     is put off, while that is aborted and its producer fenced
    is about to change             is put off

Any other producer was fenced before: PRODUCER_FENCED.

An epoch is given when it is on the disk, whatever the log's settings: were it forgotten, it would be given again, and
partitions would take what the second producer sends for what the first one has sent before.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pylogbroker.coordinators import EventQueue
from pylogbroker.errors import ErrorCode
from pylogbroker.transactions.completion import Completion
from pylogbroker.transactions.log_port import TransactionLogPort
from pylogbroker.transactions.metadata import TransactionMetadata, initialized, may_initialize, needs_new_id, rotated
from pylogbroker.transactions.record_writer import TransactionRecordWriter
from pylogbroker.transactions.requests import InitProducerId, InitResult, Reply
from pylogbroker.transactions.states import PREPARED, TransactionState
from pylogbroker.transactions.transaction import Shard, Transaction


@attrs.define(eq=False)
class Initialization:
    """Gives producers their ids and epochs."""

    _log_port: TransactionLogPort
    _events: EventQueue
    _writer: TransactionRecordWriter
    _completion: Completion

    def create(self, shard: Shard, request: InitProducerId, reply: Reply[InitResult]) -> None:
        """Initialize a producer with a transactional id that is not known."""

        def taken(error: ErrorCode, producer_id: int, now_ms: int) -> None:
            if error or not shard.active:
                reply(InitResult(error or ErrorCode.NOT_COORDINATOR))
                return
            name = request.transactional_id
            if name not in shard.transactions:  # else another producer was faster
                metadata = TransactionMetadata(producer_id, timeout_ms=request.timeout_ms, updated_ms=now_ms)
                shard.transactions[name] = Transaction(name, shard, metadata)
            self.initialize(shard.transactions[name], request, reply, now_ms)

        self._log_port.take_producer_id(self._events.as_event(taken))

    def initialize(
        self, transaction: Transaction, request: InitProducerId, reply: Reply[InitResult], now_ms: int
    ) -> None:
        """Initialize a producer with a transactional id that is known."""
        metadata = transaction.metadata
        error = _initialization_error(transaction, request)
        if error:
            reply(InitResult(error))
        elif metadata.state is TransactionState.ONGOING:
            self._completion.fence(transaction, now_ms, _answer_concurrent(reply))
        elif needs_new_id(metadata, request):
            self._rotate(transaction, request, reply)
        else:
            self._assign(transaction, initialized(metadata, request, now_ms), reply, now_ms)

    def _rotate(self, transaction: Transaction, request: InitProducerId, reply: Reply[InitResult]) -> None:
        def taken(error: ErrorCode, producer_id: int, now_ms: int) -> None:
            transaction.pending = None
            if error or not transaction.shard.active:
                reply(InitResult(error or ErrorCode.NOT_COORDINATOR))
            else:
                self._assign(transaction, rotated(transaction.metadata, request, producer_id, now_ms), reply, now_ms)

        transaction.pending = TransactionState.EMPTY
        self._log_port.take_producer_id(self._events.as_event(taken))

    def _assign(
        self, transaction: Transaction, target: TransactionMetadata, reply: Reply[InitResult], now_ms: int
    ) -> None:
        def stored(error: ErrorCode, later_ms: int) -> None:
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
    """The producer's next try finds the transaction aborted."""
    return lambda error, now_ms: reply(InitResult(error or ErrorCode.CONCURRENT_TRANSACTIONS))
