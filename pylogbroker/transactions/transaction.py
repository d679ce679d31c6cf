"""A transactional id and its shard."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs

from pylogbroker.coordinators import NO_PRODUCER_ID, Reply, Timer, TopicPartition, cancel
from pylogbroker.errors import ErrorCode
from pylogbroker.transactions.metadata import EPOCHS_UNSYNCED_MAX, TransactionMetadata
from pylogbroker.transactions.states import TransactionState


@attrs.frozen(eq=False, repr=False)
class Addition:
    """Partitions that a producer adds, by a level of transaction.version."""

    producer_id: int
    producer_epoch: int
    partitions: Collection[TopicPartition]
    client_version: int
    reply: Reply[ErrorCode]


@attrs.define(eq=False, repr=False)
class TransactionShard:
    """Callbacks after the unload see that `active` is False."""

    partition: int
    coordinator_epoch: int
    transactions: dict[str, Transaction] = attrs.field(factory=dict)
    active: bool = True

    def create(self, transactional_id: str, metadata: TransactionMetadata) -> Transaction:
        transaction = self.transactions[transactional_id] = Transaction(transactional_id, self, metadata)
        return transaction

    def remove(self, transaction: Transaction) -> None:
        transaction.stop_timers()
        del self.transactions[transaction.transactional_id]

    def close(self) -> None:
        """Stop timers; appends and markers under way have no effect."""
        self.active = False
        for transaction in self.transactions.values():
            transaction.stop_timers()


@attrs.define(eq=False, repr=False)
class Transaction:
    transactional_id: str
    shard: TransactionShard
    metadata: TransactionMetadata
    pending: TransactionState | None = None
    deadline: Timer | None = None  # of the open transaction
    retry: Timer | None = None  # of the markers, or of the completion's record
    failures: int = 0  # in a row
    waiting: dict[Reply[bool], None] = attrs.field(factory=dict)
    """Called with True when the end of the transaction is complete, or the shard is closed."""
    additions: list[Addition] = attrs.field(factory=list)
    """Partitions that wait until others are stored."""
    epochs_left_out: int = 0
    """Epochs above the stored one that may have been assigned, if a power failure has cut the log."""
    synced: TransactionMetadata | None = None
    """Last state of transactions v2 that is known to be synced."""

    def may_assign(self, target: TransactionMetadata, transaction_version: int) -> bool:
        """Return whether the epoch of the next transaction v2 may be assigned without a sync.

        Records below version 1 do not say that a producer uses transactions v2.
        """
        synced = self.synced
        return (
            transaction_version > 0
            and synced is not None
            and synced.producer_id == target.producer_id
            and target.next_producer_id == NO_PRODUCER_ID
            and target.producer_epoch - synced.producer_epoch <= EPOCHS_UNSYNCED_MAX
        )

    @property
    def is_retrying(self) -> bool:
        """True while the markers, or the record of the completion, wait for another attempt."""
        return self.retry is not None and self.retry.live

    def take_waiting(self) -> Iterable[Reply[bool]]:
        """Return what waits for the completion, once."""
        waiting, self.waiting = self.waiting, {}
        return waiting

    def take_additions(self) -> list[Addition]:
        """Return the partitions that wait, once."""
        additions, self.additions = self.additions, []
        return additions

    def stop_timers(self) -> None:
        cancel(self.deadline)
        cancel(self.retry)
