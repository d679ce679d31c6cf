"""What is stored of a transactional id, and what each step makes of it: values in, values out.

A producer's epoch grows by one with every InitProducerId and with every fence. Only epochs below 32767 are ever given
to a producer, so that there is one left to fence the last of them with; after 32766 there is a new producer id:

    given to a producer      0, 1, ... 32766 | of the next id: 0, 1, ...
    fences                      1, ... 32766, 32767

`last_producer_id` and `last_producer_epoch` are what a producer had that asked for the present pair and named its own.
If it asks again with those, it did not get the answer, and gets it now.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from pylogbroker.coordinators import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.transactions.requests import NO_TIME, InitProducerId
from pylogbroker.transactions.states import IDLE, TransactionState

EPOCH_MAX = 2**15 - 1
ASSIGNABLE_EPOCH_MAX = EPOCH_MAX - 1


@attrs.frozen
class TransactionMetadata:
    """A transactional id at one moment."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH  # -1: never yet given to a producer
    state: TransactionState = TransactionState.EMPTY
    timeout_ms: int = 0
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME  # when the first partition of the transaction was added
    updated_ms: int = NO_TIME
    last_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left to give."""
        return self.producer_epoch >= ASSIGNABLE_EPOCH_MAX

    @property
    def committed(self) -> bool:
        """How the transaction ended or is ending."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    def has_timed_out(self, now_ms: int) -> bool:
        """Whether the transaction that is going on should have ended by now."""
        return self.state is TransactionState.ONGOING and self.start_ms + self.timeout_ms < now_ms


def may_initialize(metadata: TransactionMetadata, request: InitProducerId) -> bool:
    """Whether a producer may ask for the next epoch: it is new, or has the last pair, or the one before that."""
    if request.producer_id == NO_PRODUCER_ID or metadata.producer_epoch == NO_PRODUCER_EPOCH:
        return True
    return _is_current(metadata, request) or _is_retry(metadata, request)


def needs_new_id(metadata: TransactionMetadata, request: InitProducerId) -> bool:
    """Whether the next pair has another producer id. A request that `knows` refuses has no next pair."""
    return metadata.is_exhausted and not _is_retry(metadata, request)


def initialized(metadata: TransactionMetadata, request: InitProducerId, now_ms: int) -> TransactionMetadata:
    """The next epoch is the producer's; the same one again for a producer that asks again."""
    if _is_retry(metadata, request):
        return _initialized(metadata, request, now_ms)
    named = request.producer_id != NO_PRODUCER_ID
    return attrs.evolve(
        _initialized(metadata, request, now_ms),
        producer_epoch=metadata.producer_epoch + 1,
        last_producer_id=metadata.producer_id,
        last_producer_epoch=metadata.producer_epoch if named else NO_PRODUCER_EPOCH,
    )


def rotated(
    metadata: TransactionMetadata, request: InitProducerId, producer_id: int, now_ms: int
) -> TransactionMetadata:
    """The first epoch of a new producer id is the producer's."""
    named = request.producer_id != NO_PRODUCER_ID
    return attrs.evolve(
        _initialized(metadata, request, now_ms),
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_id=metadata.producer_id,
        last_producer_epoch=metadata.producer_epoch if named else NO_PRODUCER_EPOCH,
    )


def extended(metadata: TransactionMetadata, partitions: Collection[TopicPartition], now_ms: int) -> TransactionMetadata:
    """A transaction has more partitions, or begins with these."""
    begins = metadata.state in IDLE
    return attrs.evolve(
        metadata,
        state=TransactionState.ONGOING,
        partitions=metadata.partitions.union(partitions),
        start_ms=now_ms if begins else metadata.start_ms,
        updated_ms=now_ms,
    )


def prepared(metadata: TransactionMetadata, committed: bool, now_ms: int) -> TransactionMetadata:
    """It is decided how the transaction ends."""
    state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    return attrs.evolve(metadata, state=state, updated_ms=now_ms)


def fenced(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """The transaction is to be aborted with an epoch that no producer has."""
    return attrs.evolve(
        prepared(metadata, committed=False, now_ms=now_ms),
        producer_epoch=min(metadata.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=NO_PRODUCER_EPOCH,
    )


def completed(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """All markers have been written, so no partitions are left."""
    state = TransactionState.COMPLETE_COMMIT if metadata.committed else TransactionState.COMPLETE_ABORT
    return attrs.evolve(metadata, state=state, updated_ms=now_ms)


def error_of_ending(metadata: TransactionMetadata, committed: bool) -> ErrorCode:
    """What EndTxn is answered if no transaction is going on: it may be the second time that it is asked."""
    ended = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if metadata.state in ended and metadata.committed == committed:
        return ErrorCode.NONE
    return ErrorCode.INVALID_TXN_STATE


def _is_current(metadata: TransactionMetadata, request: InitProducerId) -> bool:
    return (request.producer_id, request.producer_epoch) == (metadata.producer_id, metadata.producer_epoch)


def _is_retry(metadata: TransactionMetadata, request: InitProducerId) -> bool:
    """The present pair was given in answer to just this request."""
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
