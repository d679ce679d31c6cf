"""Replays, loads and unloads shards, and expires unused transactional ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from pylogbroker.coordinators import PartitionReplay
from pylogbroker.errors import CorruptRecords
from pylogbroker.long_loops import give_way
from pylogbroker.records import Record
from pylogbroker.transactions import record_schema
from pylogbroker.transactions.completion import Completion
from pylogbroker.transactions.metadata import EPOCHS_UNSYNCED_MAX, TRANSACTIONS_V2, TransactionMetadata
from pylogbroker.transactions.record_writer import TransactionRecordWriter
from pylogbroker.transactions.settings import TransactionSettings
from pylogbroker.transactions.states import IDLE, PREPARED, TransactionState
from pylogbroker.transactions.transaction import Transaction, TransactionShard

_IDS_PER_STEP: Final = 2000  # a millisecond
_APPEND_BYTES_MAX = 256 * 1024  # below the limit of a batch


@attrs.define(eq=False, repr=False)
class ReplayedTransactions:
    metadata: dict[str, TransactionMetadata] = attrs.field(factory=dict, init=False)

    def apply(self, record: Record, producer_id: int | None) -> None:
        transactional_id = None if record.key is None else record_schema.decode_key(record.key)
        if transactional_id is None:
            raise CorruptRecords("the key is not of a known version")
        if record.value is None:
            self.metadata.pop(transactional_id, None)
        else:
            self.metadata[transactional_id] = record_schema.decode_value(record.value)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Do nothing: this topic has no transactional records."""


@attrs.frozen
class TransactionShardHandler:
    _settings: TransactionSettings
    _writer: TransactionRecordWriter
    _completion: Completion

    @property
    def sweep_interval_ms(self) -> int:
        return self._settings.expiration_interval_ms

    def new_state(self) -> ReplayedTransactions:
        return ReplayedTransactions()

    async def make_shard(self, replay: PartitionReplay[ReplayedTransactions], now_ms: int) -> TransactionShard:
        shard = TransactionShard(replay.partition, replay.leader_epoch)
        for transactional_id, metadata in replay.state.metadata.items():
            transaction = shard.create(transactional_id, metadata)
            if metadata.client_version >= TRANSACTIONS_V2:
                transaction.epochs_left_out = EPOCHS_UNSYNCED_MAX
            await give_way()
        return shard

    async def on_active(self, shard: TransactionShard, state: ReplayedTransactions, now_ms: int) -> None:
        """Start timeouts of open transactions; write markers of decided ones, which bar their producers at once."""
        decided = [transaction for transaction in shard.transactions.values() if transaction.metadata.state in PREPARED]
        for transaction in decided:
            self._completion.bar(transaction, now_ms)
        for transaction in decided:
            if shard.active:
                self._completion.resume(transaction, now_ms)
            await give_way()
        for transaction in list(shard.transactions.values()):
            if shard.active and transaction.metadata.state is TransactionState.ONGOING:
                self._completion.watch(transaction)
            await give_way()

    def on_unload(self, shard: TransactionShard, now_ms: int) -> None:
        shard.close()
        for transaction in shard.transactions.values():
            self._completion.wake(transaction)

    async def sweep(self, shard: TransactionShard, now_ms: int) -> None:
        transactions = list(shard.transactions.values())
        for start in range(0, len(transactions), _IDS_PER_STEP):
            some = [
                transaction
                for transaction in transactions[start : start + _IDS_PER_STEP]
                if self._is_expired(transaction, now_ms)
            ]
            current = shard.transactions  # an append of the last sweep may have removed some meanwhile
            for expired in _in_appends(
                transaction for transaction in some if current.get(transaction.transactional_id) is transaction
            ):
                self._writer.write_tombstones(shard, expired, now_ms)
            await give_way()

    def _is_expired(self, transaction: Transaction, now_ms: int) -> bool:
        metadata = transaction.metadata
        unused_since = now_ms - self._settings.expiration_ms
        return transaction.pending is None and metadata.state in IDLE and metadata.updated_ms <= unused_since


def _in_appends(transactions: Iterable[Transaction]) -> Iterator[list[Transaction]]:
    some: list[Transaction] = []
    size = 0
    for transaction in transactions:
        some.append(transaction)
        size += len(transaction.transactional_id)
        if size > _APPEND_BYTES_MAX:
            yield some
            some, size = [], 0
    if some:
        yield some
