"""Ends transactions: the decision is stored, then each partition gets a marker, then the completion is stored.

    end, fence, timeout --> Prepare* stored --> markers, of the partitions that are left --> Complete* stored
                                                  ^                 |
                                                  +-- some failed --+

The producer is answered when the decision is stored. The rest is retried, at growing intervals and after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import attrs

from pylogbroker.coordinators import AppendCallback, EventQueue, Timers, TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.transactions.metadata import TransactionMetadata, completed, fenced, prepared
from pylogbroker.transactions.ports import TransactionMarker, TransactionPort
from pylogbroker.transactions.record_writer import TransactionRecordWriter
from pylogbroker.transactions.states import TransactionState
from pylogbroker.transactions.transaction import Transaction

_RETRY_MS_MIN = 100
_RETRY_MS_MAX = 1_000

_FINAL_MARKER_ERRORS = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""Errors of a marker that is not retried.

The partition is deleted, its format cannot hold transactions, or it knows a later epoch of the producer: a power
failure may cut one log and spare another. An open transaction would bar the producer from later epochs.
"""

_FENCED_ERROR = ErrorCode.TRANSACTION_COORDINATOR_FENCED
"""Another coordinator decides and completes the transaction."""


@attrs.frozen
class TransactionTimeout:
    transactional_id: str
    producer_id: int
    open_ms: int
    timeout_ms: int
    partitions: int


def ignore_timeout(timeout: TransactionTimeout) -> None:
    """Do nothing."""


@attrs.define(eq=False, repr=False)
class Completion:
    _abort_interval_ms: int
    _port: TransactionPort
    _events: EventQueue
    _timers: Timers
    _writer: TransactionRecordWriter
    _on_timeout: Callable[[TransactionTimeout], None]

    def end(self, transaction: Transaction, committed: bool, now_ms: int, done: AppendCallback) -> None:
        self.decide(transaction, prepared(transaction.metadata, committed, now_ms), now_ms, done)

    def fence(self, transaction: Transaction, now_ms: int, done: AppendCallback) -> None:
        self.decide(transaction, fenced(transaction.metadata, now_ms), now_ms, done)

    def decide(
        self,
        transaction: Transaction,
        target: TransactionMetadata,
        now_ms: int,
        done: AppendCallback,
        on_disk: bool = False,
    ) -> None:
        """Store a decision, with `on_disk` synced, and call `done`; then write the markers."""

        def decided(error: ErrorCode, later_ms: int) -> None:
            done(error, later_ms)
            if not error:
                self.resume(transaction, later_ms)

        self._writer.write(transaction, target, now_ms, decided, on_disk)

    def bar(self, transaction: Transaction, now_ms: int) -> None:
        """Let the producer wait until its decided transaction is complete."""
        transaction.pending = completed(transaction.metadata, now_ms).state

    def resume(self, transaction: Transaction, now_ms: int) -> None:
        self.bar(transaction, now_ms)
        transaction.failures = 0
        self._proceed(transaction, now_ms)

    def _proceed(self, transaction: Transaction, now_ms: int) -> None:
        metadata = transaction.metadata
        if not metadata.partitions:
            target = completed(metadata, now_ms)
            self._writer.write(transaction, target, now_ms, partial(self._completed, transaction, target.state))
            return
        marker = TransactionMarker(
            metadata.producer_id,
            metadata.producer_epoch,
            transaction.shard.coordinator_epoch,
            metadata.committed,
            tuple(sorted(metadata.partitions)),
            metadata.client_version,
        )
        self._port.write_markers(marker, self._events.as_event(partial(self._written, transaction)))

    def _written(self, transaction: Transaction, errors: Mapping[TopicPartition, ErrorCode], now_ms: int) -> None:
        if not transaction.shard.active or _FENCED_ERROR in errors.values():
            return
        before = transaction.metadata.partitions
        left = frozenset(partition for partition in before if errors.get(partition) not in _FINAL_MARKER_ERRORS)
        transaction.metadata = attrs.evolve(transaction.metadata, partitions=left)
        if left:
            self._retry(transaction, now_ms)
        else:
            self._proceed(transaction, now_ms)

    def _completed(self, transaction: Transaction, state: TransactionState, error: ErrorCode, now_ms: int) -> None:
        if error and transaction.shard.active:
            transaction.pending = state
            self._retry(transaction, now_ms)
        else:
            self.wake(transaction)

    def wake(self, transaction: Transaction) -> None:
        """Let requests go on that wait for the end to be complete; without a shard they find another coordinator."""
        for reply in transaction.take_waiting():
            self._events.reply(reply, True)

    def _retry(self, transaction: Transaction, now_ms: int) -> None:
        due = now_ms + min(_RETRY_MS_MIN << min(transaction.failures, 16), _RETRY_MS_MAX)
        transaction.failures += 1
        transaction.retry = self._timers.start(due, partial(self._proceed, transaction))

    def watch(self, transaction: Transaction) -> None:
        """Abort after the transaction's timeout, at the next multiple of the abort interval."""
        metadata = transaction.metadata
        self._schedule_timeout_check(transaction, metadata.start_ms + metadata.timeout_ms + 1)

    def _schedule_timeout_check(self, transaction: Transaction, earliest_ms: int) -> None:
        due = -(-earliest_ms // self._abort_interval_ms) * self._abort_interval_ms
        if transaction.deadline is None:
            transaction.deadline = self._timers.start(due, partial(self._check_timeout, transaction))
        else:
            self._timers.move(transaction.deadline, due)

    def _check_timeout(self, transaction: Transaction, now_ms: int) -> None:
        if not transaction.metadata.has_timed_out(now_ms):
            return
        self._schedule_timeout_check(transaction, now_ms + 1)  # if the append fails
        if transaction.pending is None:
            self.fence(transaction, now_ms, partial(self._timed_out, transaction))

    def _timed_out(self, transaction: Transaction, error: ErrorCode, now_ms: int) -> None:
        if not error:
            had = transaction.metadata
            self._on_timeout(
                TransactionTimeout(
                    transaction.transactional_id,
                    had.producer_id,
                    now_ms - had.start_ms,
                    had.timeout_ms,
                    len(had.partitions),
                )
            )
