"""Writes states and tombstones to `__transaction_state`.

A state counts when its record is stored; until then, and if the append fails, the present one holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from pylogbroker.coordinators import (
    APPEND_ERRORS,
    AppendCallback,
    LazyRecords,
    RecordWriter,
    check_transition,
    record,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record
from pylogbroker.transactions import record_schema
from pylogbroker.transactions.metadata import TRANSACTIONS_V2, TransactionMetadata
from pylogbroker.transactions.ports import TransactionPort
from pylogbroker.transactions.states import PREDECESSORS, TransactionState
from pylogbroker.transactions.transaction import Transaction, TransactionShard

_TRANSACTION_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    **APPEND_ERRORS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Errors of a producer's request by the append's error."""


@attrs.frozen
class TransactionRecordWriter:
    _writer: RecordWriter
    _port: TransactionPort

    def write(
        self,
        transaction: Transaction,
        target: TransactionMetadata,
        now_ms: int,
        done: AppendCallback,
        on_disk: bool = False,
    ) -> None:
        """Set `target` when it is stored, with `on_disk` when it is synced."""
        check_transition(transaction.metadata.state, target.state, PREDECESSORS)
        transaction.pending = target.state
        version = self._port.transaction_version

        def encode() -> Iterator[Record]:
            key = record_schema.encode_key(transaction.transactional_id)
            yield record(key, record_schema.encode_value(target, version), now_ms)

        def stored(error: ErrorCode, done_ms: int) -> None:
            transaction.pending = None
            if not transaction.shard.active:
                error = ErrorCode.NOT_COORDINATOR
            elif not error:
                transaction.metadata = target
                if target.client_version < TRANSACTIONS_V2:
                    transaction.synced = None  # a load of this record leaves no epochs out
                elif on_disk:
                    transaction.synced = target
            done(error, done_ms)

        records = LazyRecords(1, encode)
        self._writer.append(transaction.shard.partition, records, now_ms, stored, _TRANSACTION_ERRORS, on_disk=on_disk)

    def write_tombstones(self, shard: TransactionShard, transactions: Sequence[Transaction], now_ms: int) -> None:
        """Remove transactional ids when their tombstones are stored."""
        for transaction in transactions:
            check_transition(transaction.metadata.state, TransactionState.DEAD, PREDECESSORS)
            transaction.pending = TransactionState.DEAD

        def encode() -> Iterator[Record]:
            for transaction in transactions:
                yield record(record_schema.encode_key(transaction.transactional_id), None, now_ms)

        def stored(error: ErrorCode, done_ms: int) -> None:
            for transaction in transactions:
                transaction.pending = None
                if not error:
                    shard.remove(transaction)

        self._writer.append(shard.partition, LazyRecords(len(transactions), encode), now_ms, stored)
