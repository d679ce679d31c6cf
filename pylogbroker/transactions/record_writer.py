"""What the coordinator writes down: the next state of a transactional id, and that one is forgotten.

A state counts only when it is stored. Until then the present one stands, and it stays if the store fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs

from pylogbroker.coordinators import EventQueue
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record
from pylogbroker.transactions import record_schema
from pylogbroker.transactions.log_port import AppendCallback, TransactionLogPort
from pylogbroker.transactions.metadata import TransactionMetadata
from pylogbroker.transactions.states import TransactionState, check_transition
from pylogbroker.transactions.transaction import Shard, Transaction
from pylogbroker.wire import EncodingError

ERRORS: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a producer is told when the next state could not be stored for that reason."""


@attrs.define(eq=False)
class TransactionRecordWriter:
    """Turns transactional ids into records and hands them to the store."""

    _log_port: TransactionLogPort
    _events: EventQueue

    def write(
        self,
        transaction: Transaction,
        target: TransactionMetadata,
        now_ms: int,
        done: AppendCallback,
        on_disk: bool = False,
    ) -> None:
        """Let `target` be the transaction's metadata as soon as it is stored, maybe `on_disk`, and `done` be told."""
        check_transition(transaction.metadata.state, target.state)
        transaction.pending = target.state
        report = self._events.as_event(partial(_settle, transaction, target, done))
        try:
            record = _record(transaction, record_schema.encode_value(target), now_ms)
        except EncodingError:  # more partitions or a longer name than the layout can say
            report(ErrorCode.MESSAGE_TOO_LARGE, now_ms)
        else:
            self._log_port.append(transaction.shard.partition, [record], report, on_disk)

    def forget(
        self, shard: Shard, transactions: Sequence[Transaction], now_ms: int, done: Callable[[Transaction], None]
    ) -> None:
        """Write that these transactional ids of one partition are no more, and tell of each that it is so."""

        def stored(error: ErrorCode, later_ms: int) -> None:
            for transaction in transactions:
                transaction.pending = None
                if not error:
                    done(transaction)

        for transaction in transactions:
            check_transition(transaction.metadata.state, TransactionState.DEAD)
            transaction.pending = TransactionState.DEAD
        records = [_record(transaction, None, now_ms) for transaction in transactions]
        self._log_port.append(shard.partition, records, self._events.as_event(stored))


def _settle(
    transaction: Transaction, target: TransactionMetadata, done: AppendCallback, error: ErrorCode, now_ms: int
) -> None:
    transaction.pending = None
    if not transaction.shard.active:
        done(ErrorCode.NOT_COORDINATOR, now_ms)
        return
    if not error:
        transaction.metadata = target
    done(ERRORS.get(error, error), now_ms)


def _record(transaction: Transaction, value: bytes | None, now_ms: int) -> Record:
    return Record(offset=0, timestamp=now_ms, key=record_schema.encode_key(transaction.transactional_id), value=value)
