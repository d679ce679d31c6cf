"""A transactional id as the coordinator holds it, and the partition of `__transaction_state` that it belongs to."""

from __future__ import annotations

import attrs

from pylogbroker.coordinators import Timer
from pylogbroker.transactions.metadata import TransactionMetadata
from pylogbroker.transactions.states import TransactionState


@attrs.define(eq=False)
class Shard:
    """A partition whose transactions are coordinated here, from its loading until it is given up."""

    partition: int
    coordinator_epoch: int
    transactions: dict[str, Transaction] = attrs.field(factory=dict)
    active: bool = True
    sweep: Timer | None = None

    def close(self) -> None:
        """Nothing more is to be done here, and what is still under way comes to nothing."""
        self.active = False
        cancel(self.sweep)
        for transaction in self.transactions.values():
            transaction.stop_timers()


@attrs.define(eq=False)
class Transaction:
    """What is stored of a transactional id, and the state it is about to enter."""

    transactional_id: str
    shard: Shard
    metadata: TransactionMetadata
    pending: TransactionState | None = None
    deadline: Timer | None = None  # of the transaction that is going on
    retry: Timer | None = None  # of what has to be done before it is complete
    failures: int = 0  # in a row, of that

    def stop_timers(self) -> None:
        """Nothing is to happen by itself any more."""
        cancel(self.deadline)
        cancel(self.retry)


def cancel(timer: Timer | None) -> None:
    """Cancel a timer if there is one."""
    if timer is not None:
        timer.cancel()
