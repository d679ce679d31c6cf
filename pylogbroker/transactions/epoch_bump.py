"""EndTxn 5: each transaction has an epoch of its own, and its end returns the next one (KIP-890, transactions v2).

Late requests of a transaction cannot reach the next one. The answer to a producer with the present id:

    its epoch is         state            commit                   abort
    -------------------  ---------------  -----------------------  -----------------------------------------
    the present one      Ongoing          NONE, next pair          NONE, next pair
                         Empty            INVALID_TXN_STATE        NONE, next pair: it may not know whether
                         Complete*        INVALID_TXN_STATE          a partition was added
    that of the ended    CompleteCommit   NONE, present pair       INVALID_TXN_STATE
    transaction          CompleteAbort    TRANSACTION_ABORTABLE    NONE, present pair
    another one          any              PRODUCER_FENCED

A power failure may cut the log behind epochs that were assigned, since not each of them is synced. At most
EPOCHS_UNSYNCED_MAX follow a synced one of transactions v2. After a load, the next InitProducerId leaves as many out. So
none is assigned twice (see `initialization`).

While a record or markers are written: CONCURRENT_TRANSACTIONS. A commit that comes after an abort by timeout may go on:
the producer aborts and gets the next pair. In Apache Kafka that is the end of the producer (KAFKA-20785).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from pylogbroker.coordinators import NO_PRODUCER_ID, EventQueue, Reply
from pylogbroker.errors import ErrorCode
from pylogbroker.transactions.completion import Completion
from pylogbroker.transactions.metadata import TransactionMetadata, completed, is_ended, is_next, prepared_for_next
from pylogbroker.transactions.ports import TransactionPort
from pylogbroker.transactions.requests import EndResult, EndTransaction
from pylogbroker.transactions.states import IDLE, TransactionState
from pylogbroker.transactions.transaction import Transaction

_RETRY_ERRORS: Final[Mapping[tuple[TransactionState, bool], ErrorCode]] = {
    (TransactionState.COMPLETE_COMMIT, True): ErrorCode.NONE,
    (TransactionState.COMPLETE_COMMIT, False): ErrorCode.INVALID_TXN_STATE,
    (TransactionState.COMPLETE_ABORT, True): ErrorCode.TRANSACTION_ABORTABLE,
    (TransactionState.COMPLETE_ABORT, False): ErrorCode.NONE,
}
"""Answers to the producer of the ended transaction, by state and whether it commits."""


@attrs.define(eq=False, repr=False)
class EpochBump:
    _port: TransactionPort
    _events: EventQueue
    _completion: Completion

    def end(self, transaction: Transaction, request: EndTransaction, reply: Reply[EndResult], now_ms: int) -> None:
        metadata = transaction.metadata
        is_retry = is_ended(metadata, request.producer_id, request.producer_epoch)
        is_present = (request.producer_id, request.producer_epoch) == (metadata.producer_id, metadata.producer_epoch)
        if is_next(metadata, request.producer_id, request.producer_epoch):
            reply(EndResult(ErrorCode.CONCURRENT_TRANSACTIONS))
        elif not is_retry and request.producer_id != metadata.producer_id:
            reply(EndResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        elif not (is_retry and metadata.state is not TransactionState.ONGOING) and not is_present:
            reply(EndResult(ErrorCode.PRODUCER_FENCED))
        elif transaction.pending is not None:
            reply(EndResult(ErrorCode.CONCURRENT_TRANSACTIONS))
        elif is_present:
            self._end_present(transaction, request.committed, reply, now_ms)
        else:
            self._answer_again(transaction, request.committed, reply, now_ms)

    def _end_present(self, transaction: Transaction, committed: bool, reply: Reply[EndResult], now_ms: int) -> None:
        if committed and transaction.metadata.state in IDLE:
            reply(EndResult(ErrorCode.INVALID_TXN_STATE))
        elif transaction.metadata.is_exhausted:
            self._end_with_new_id(transaction, committed, reply)
        else:
            self._decide(transaction, committed, NO_PRODUCER_ID, reply, now_ms)

    def _answer_again(self, transaction: Transaction, committed: bool, reply: Reply[EndResult], now_ms: int) -> None:
        """Answer the producer of the ended transaction, which did not hear of its end."""
        metadata = transaction.metadata
        error = _RETRY_ERRORS.get((metadata.state, committed), ErrorCode.PRODUCER_FENCED)
        if error:
            reply(EndResult(error))
        elif metadata.is_fence:
            self._end_with_new_id(transaction, committed, reply)
        else:
            reply(_next_pair(metadata))

    def _end_with_new_id(self, transaction: Transaction, committed: bool, reply: Reply[EndResult]) -> None:
        def taken(error: ErrorCode, producer_id: int, now_ms: int) -> None:
            transaction.pending = None
            if error or not transaction.shard.active:
                reply(EndResult(error or ErrorCode.NOT_COORDINATOR))
            else:
                self._decide(transaction, committed, producer_id, reply, now_ms)

        transaction.pending = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
        self._port.allocate_producer_id(self._events.as_event(taken))

    def _decide(
        self, transaction: Transaction, committed: bool, next_id: int, reply: Reply[EndResult], now_ms: int
    ) -> None:
        target = prepared_for_next(transaction.metadata, committed, next_id, now_ms)
        answer = _next_pair(completed(target, now_ms))

        def decided(error: ErrorCode, later_ms: int) -> None:
            reply(EndResult(error) if error else answer)

        on_disk = not transaction.may_assign(target, self._port.transaction_version)
        self._completion.decide(transaction, target, now_ms, decided, on_disk)


def _next_pair(metadata: TransactionMetadata) -> EndResult:
    return EndResult(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch)
