"""The stored state of a transactional id, and its transitions as functions.

Every InitProducerId and every fence raise the epoch by one. Epoch 32767 is left for a fence; after 32766 there is a new
producer id:

    producers      0, 1, ... 32766 | of the next id: 0, 1, ...
    fences            1, ... 32766, 32767

The producer sent `last_producer_id` and `last_producer_epoch` for the present pair. A request with them is a retry and
gets the present pair (KIP-360).

In transactions v2 (KIP-890) each end raises the epoch, too. The end of epoch 32766 has a marker of epoch 32767, and the
next transaction has `next_producer_id` at epoch 0.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from pylogbroker.coordinators import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.transactions.requests import NO_TIME, InitProducerId
from pylogbroker.transactions.states import IDLE, TransactionState

_EPOCH_MAX = 2**15 - 1
_ASSIGNABLE_EPOCH_MAX = _EPOCH_MAX - 1
TRANSACTIONS_V2 = 2
"""Level of transaction.version from which each transaction has an epoch of its own."""
EPOCHS_UNSYNCED_MAX = 100
"""Epochs of transactions v2 that are assigned without a sync. Each of them is one that a restart may cost."""


@attrs.frozen
class TransactionMetadata:
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH  # not assigned yet
    state: TransactionState = TransactionState.EMPTY
    timeout_ms: int = 0
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME  # of the transaction's first partition
    updated_ms: int = NO_TIME
    last_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    next_producer_id: int = NO_PRODUCER_ID  # of the next transaction, while this one ends
    client_version: int = 0  # transaction.version of the producer in this transaction

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= _ASSIGNABLE_EPOCH_MAX

    @property
    def is_fence(self) -> bool:
        """True for the epoch that no producer gets."""
        return self.producer_epoch >= _EPOCH_MAX

    @property
    def committed(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    def has_timed_out(self, now_ms: int) -> bool:
        return self.state is TransactionState.ONGOING and self.start_ms + self.timeout_ms < now_ms


def may_initialize(metadata: TransactionMetadata, request: InitProducerId) -> bool:
    """Return whether a producer may get the next epoch: it is new, or has the present or the last pair."""
    if request.producer_id == NO_PRODUCER_ID or metadata.producer_epoch == NO_PRODUCER_EPOCH:
        return True
    return _is_current(metadata, request) or _is_retry(metadata, request)


def needs_new_id(metadata: TransactionMetadata, request: InitProducerId, epochs_left_out: int = 0) -> bool:
    is_exhausted = metadata.producer_epoch + epochs_left_out >= _ASSIGNABLE_EPOCH_MAX
    return is_exhausted and not _is_retry(metadata, request)


def initialized(
    metadata: TransactionMetadata, request: InitProducerId, now_ms: int, epochs_left_out: int = 0
) -> TransactionMetadata:
    """Assign the next epoch; a retry gets the same one."""
    if _is_retry(metadata, request):
        return _initialized(metadata, request, now_ms)
    named = request.producer_id != NO_PRODUCER_ID
    return attrs.evolve(
        _initialized(metadata, request, now_ms),
        producer_epoch=metadata.producer_epoch + epochs_left_out + 1,
        last_producer_id=metadata.producer_id,
        last_producer_epoch=metadata.producer_epoch if named else NO_PRODUCER_EPOCH,
    )


def rotated(
    metadata: TransactionMetadata, request: InitProducerId, producer_id: int, now_ms: int
) -> TransactionMetadata:
    named = request.producer_id != NO_PRODUCER_ID
    return attrs.evolve(
        _initialized(metadata, request, now_ms),
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_id=metadata.producer_id,
        last_producer_epoch=metadata.producer_epoch if named else NO_PRODUCER_EPOCH,
    )


def extended(
    metadata: TransactionMetadata, partitions: Collection[TopicPartition], now_ms: int, client_version: int = 0
) -> TransactionMetadata:
    """Add partitions; the first ones begin the transaction."""
    begins = metadata.state in IDLE
    return attrs.evolve(
        metadata,
        state=TransactionState.ONGOING,
        partitions=metadata.partitions.union(partitions),
        start_ms=now_ms if begins else metadata.start_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def prepared(metadata: TransactionMetadata, committed: bool, now_ms: int) -> TransactionMetadata:
    """Decide with the epoch as it is: partitions must take its markers, whatever added them."""
    state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    return attrs.evolve(metadata, state=state, updated_ms=now_ms, client_version=0)


def prepared_for_next(
    metadata: TransactionMetadata, committed: bool, next_producer_id: int, now_ms: int
) -> TransactionMetadata:
    """Decide, and raise the epoch. `next_producer_id` is a new one if the epoch is exhausted, else NO_PRODUCER_ID."""
    is_open = metadata.state is TransactionState.ONGOING
    return attrs.evolve(
        prepared(metadata, committed, now_ms),
        producer_epoch=min(metadata.producer_epoch + 1, _EPOCH_MAX),
        last_producer_id=metadata.producer_id,
        last_producer_epoch=metadata.producer_epoch,
        next_producer_id=next_producer_id,
        start_ms=metadata.start_ms if is_open else now_ms,
        client_version=TRANSACTIONS_V2,
    )


def fenced(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Decide to abort, with an epoch that no producer has."""
    return attrs.evolve(
        prepared(metadata, committed=False, now_ms=now_ms),
        producer_epoch=min(metadata.producer_epoch + 1, _EPOCH_MAX),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        client_version=metadata.client_version,
    )


def completed(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    state = TransactionState.COMPLETE_COMMIT if metadata.committed else TransactionState.COMPLETE_ABORT
    ended = attrs.evolve(metadata, state=state, updated_ms=now_ms)
    if metadata.next_producer_id == NO_PRODUCER_ID:
        return ended
    return attrs.evolve(
        ended,
        producer_id=metadata.next_producer_id,
        producer_epoch=0,
        last_producer_id=metadata.producer_id,
        last_producer_epoch=_ASSIGNABLE_EPOCH_MAX,
        next_producer_id=NO_PRODUCER_ID,
    )


def error_of_ending(metadata: TransactionMetadata, committed: bool) -> ErrorCode:
    """Return the error of EndTxn without open transaction; NONE for a retry."""
    ended = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if metadata.state in ended and metadata.committed == committed:
        return ErrorCode.NONE
    return ErrorCode.INVALID_TXN_STATE


def is_ended(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """Return whether the pair is that of the transaction whose end raised the epoch."""
    if metadata.producer_id == producer_id:
        return metadata.producer_epoch == producer_epoch + 1
    is_rotated = metadata.last_producer_id == producer_id and metadata.producer_epoch == 0
    return is_rotated and producer_epoch == _ASSIGNABLE_EPOCH_MAX


def is_next(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """Return whether the pair is that of the next transaction, and has another id than the one that ends."""
    return producer_epoch == 0 and producer_id == metadata.next_producer_id != NO_PRODUCER_ID


def _is_current(metadata: TransactionMetadata, request: InitProducerId) -> bool:
    return (request.producer_id, request.producer_epoch) == (metadata.producer_id, metadata.producer_epoch)


def _is_retry(metadata: TransactionMetadata, request: InitProducerId) -> bool:
    if NO_PRODUCER_EPOCH in (request.producer_epoch, metadata.producer_epoch):
        return False
    last = (metadata.last_producer_id, metadata.last_producer_epoch)
    return (request.producer_id, request.producer_epoch) == last


def _initialized(metadata: TransactionMetadata, request: InitProducerId, now_ms: int) -> TransactionMetadata:
    return attrs.evolve(
        metadata,
        state=TransactionState.EMPTY,
        timeout_ms=request.timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIME,
        updated_ms=now_ms,
    )
