"""Adds partitions to transactions; the first ones begin a transaction.

                  the partitions are not all in it
    Addition --------------------------------------> record is written --stored--> answered
        ^                                                |
        +-------------- those that came meanwhile -------+

A producer of transactions v2 adds each partition by its first records there, so several leaders ask at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.transactions.completion import Completion
from pylogbroker.transactions.metadata import TRANSACTIONS_V2, TransactionMetadata, extended, is_ended, is_next
from pylogbroker.transactions.record_writer import TransactionRecordWriter
from pylogbroker.transactions.states import TransactionState
from pylogbroker.transactions.transaction import Addition, Transaction

_ABORTED = frozenset({TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT})


@attrs.frozen(eq=False, repr=False)
class Additions:
    _writer: TransactionRecordWriter
    _completion: Completion

    def add(self, transaction: Transaction, addition: Addition, now_ms: int) -> None:
        error, pending = _error(transaction.metadata, addition), transaction.pending
        if error:
            addition.reply(error)
        elif pending not in (None, TransactionState.ONGOING):
            addition.reply(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif _has_all(transaction, addition):
            addition.reply(ErrorCode.NONE)
        elif pending is TransactionState.ONGOING:
            transaction.additions.append(addition)
        else:
            self._store(transaction, [addition], now_ms)

    def _store(self, transaction: Transaction, additions: Iterable[Addition], now_ms: int) -> None:
        target = transaction.metadata
        for addition in additions:
            target = extended(target, addition.partitions, now_ms, addition.client_version)
        self._writer.write(transaction, target, now_ms, partial(self._stored, transaction, additions))

    def _stored(self, transaction: Transaction, additions: Iterable[Addition], error: ErrorCode, now_ms: int) -> None:
        if not error:
            self._completion.watch(transaction)
        for addition in additions:
            addition.reply(error)
        later = transaction.take_additions()
        if error:
            for addition in later:
                addition.reply(error)
        elif later:
            self._store_missing(transaction, later, now_ms)

    def _store_missing(self, transaction: Transaction, additions: Iterable[Addition], now_ms: int) -> None:
        missing = []
        for addition in additions:
            if _has_all(transaction, addition):
                addition.reply(ErrorCode.NONE)
            else:
                missing.append(addition)
        if missing:
            self._store(transaction, missing, now_ms)


def _error(metadata: TransactionMetadata, addition: Addition) -> ErrorCode:
    """Return the error of another than the present producer.

    A producer that lost to its timeout hears that it may abort and go on, if its version of transactions has that.
    """
    pair = addition.producer_id, addition.producer_epoch
    if pair == (metadata.producer_id, metadata.producer_epoch):
        return ErrorCode.NONE
    if is_next(metadata, *pair):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if addition.client_version >= TRANSACTIONS_V2 and metadata.state in _ABORTED and is_ended(metadata, *pair):
        return ErrorCode.TRANSACTION_ABORTABLE
    if metadata.producer_id != addition.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.PRODUCER_FENCED


def _has_all(transaction: Transaction, addition: Addition) -> bool:
    metadata = transaction.metadata
    return metadata.state is TransactionState.ONGOING and metadata.partitions.issuperset(addition.partitions)
