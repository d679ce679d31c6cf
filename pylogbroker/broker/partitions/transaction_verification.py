"""Verification that a transaction includes the partition where its records go (KIP-890).

Otherwise late records, from a producer that lost its connection, could follow the transaction's end. Without a marker
they would hide later records from readers of committed records. Only a transaction's first batch in a partition is
verified. From Produce 12 on, it adds the partition (transactions v2). If the log knows nothing of the producer, it must
have sequence number 0.

    coordinator's answer                      error for the producer
    ----------------------------------------  -------------------------------------------------------------
    TRANSACTION_ABORTABLE: not part of it     the same, from Produce 11 on; INVALID_TXN_STATE before
    PRODUCER_FENCED                           INVALID_PRODUCER_EPOCH
    CONCURRENT_TRANSACTIONS                   the same, from Produce 12 on; NOT_ENOUGH_REPLICAS before
    it loads or has moved, does not answer,   NOT_ENOUGH_REPLICAS, after which every producer tries again
      or could not add another partition

To verify, the coordinator on this broker is asked when the batch is appended, one on another broker before that (see
`verifications`). To add, either is asked before, since the coordinator has to store it.
"""

from __future__ import annotations

import struct
from typing import Final, Protocol

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.verifications import Verification
from pylogbroker.broker.services import HasConfig, HasTransactions, HasTransactionService
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Buffer

_PRODUCER = struct.Struct(">qhi")  # id, epoch and first sequence number
_PRODUCER_AT = 43
_FIRST_WITH_ABORTABLE = 11
FIRST_THAT_ADDS: Final = 12
_TRY_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)


class _Services(HasConfig, HasTransactions, HasTransactionService, Protocol):
    """Services that this module uses."""


def verify(services: _Services, transactional_id: str, partition: Partition, batch: Buffer, version: int) -> None:
    """Raise KafkaError if a batch's transaction does not include the partition; `version` is of Produce."""
    producer = _producer_to_verify(services, partition, batch, version)
    if producer is None:
        return
    producer_id, epoch, _ = producer
    key = partition.topic, partition.index
    error = services.transactions.verify(transactional_id, producer_id, epoch, [key])[key]
    if error:
        raise _rejection(error, partition, transactional_id, version)


def ask_coordinator(
    services: _Services, transactional_id: str, partition: Partition, batch: Buffer, version: int
) -> AskedCoordinator | None:
    """Ask the coordinator, if that has to be before the append; return None if `verify` is enough."""
    producer = _producer_to_verify(services, partition, batch, version)
    if producer is None:
        return None
    producer_id, epoch, first_sequence = producer
    if version < FIRST_THAT_ADDS:
        return ask_about(services, transactional_id, partition, producer_id, epoch, version)
    return add_partition(services, transactional_id, partition, producer_id, epoch, version, first_sequence)


def ask_about(
    services: _Services, transactional_id: str, partition: Partition, producer_id: int, epoch: int, version: int
) -> AskedCoordinator | None:
    """Ask the coordinator on another broker about a partition; return None if it is on this one."""
    verification = partition.verifications.join(producer_id, epoch, partition.leader_epoch)
    if verification.users == 1:
        key = partition.topic, partition.index
        answer = services.transaction_service.ask_coordinator(transactional_id, producer_id, epoch, key)
        if answer is None:
            partition.verifications.leave(verification)
            return None
        answer.addCallback(verification.answered)
    return AskedCoordinator(partition, verification, transactional_id, version)


def add_partition(
    services: HasTransactionService,
    transactional_id: str,
    partition: Partition,
    producer_id: int,
    epoch: int,
    version: int = FIRST_THAT_ADDS,
    first_sequence: int = 0,
) -> AskedCoordinator:
    """Let the coordinator, on any broker, add a partition to a transaction."""
    verification = partition.verifications.join(producer_id, epoch, partition.leader_epoch, adds=True)
    if verification.users == 1:
        key = partition.topic, partition.index
        answer = services.transaction_service.add_partition(transactional_id, producer_id, epoch, key)
        answer.addCallback(verification.answered)
    return AskedCoordinator(partition, verification, transactional_id, version, first_sequence)


@attrs.frozen(eq=False, repr=False)
class AskedCoordinator:
    """A question to the coordinator: wait for `answer`, then `check` at the append, then `close`."""

    _partition: Partition
    _verification: Verification
    _transactional_id: str
    _version: int
    _first_sequence: int = 0

    def answer(self) -> Deferred[ErrorCode]:
        """Return the answer; NONE if the transaction includes the partition."""
        return self._verification.wait()

    def error_now(self, answer: ErrorCode) -> ErrorCode:
        """Return the answer, or the error of one that is out of date: another leader may have ended the transaction."""
        if self._partition.leader_epoch != self._verification.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return answer or (ErrorCode.TRANSACTION_ABORTABLE if self._verification.is_over else answer)

    def check(self, answer: ErrorCode) -> None:
        """Raise KafkaError, if the answer was an error or is out of date."""
        partition = self._partition
        error = self.error_now(answer)
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise KafkaError(f"{partition.topic}-{partition.index} has another leader now", error)
        if error:
            raise _rejection(error, partition, self._transactional_id, self._version)
        if self._first_sequence and partition.log.producers.get(self._verification.producer_id) is None:
            raise KafkaError(
                f"the first batch of a producer in {partition.topic}-{partition.index} has sequence number "
                f"{self._first_sequence}: the one with 0 is missing",
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            )

    def close(self) -> None:
        self._partition.verifications.leave(self._verification)


def _producer_to_verify(
    services: _Services, partition: Partition, batch: Buffer, version: int
) -> tuple[int, int, int] | None:
    """Return the batch's producer id, epoch and first sequence number, unless its transaction is open in the partition.

    Its transaction may go without verification, but not without the partition.
    """
    if len(batch) < _PRODUCER_AT + _PRODUCER.size:  # the log will reject it
        return None
    producer_id, epoch, first_sequence = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
    if partition.log.producers.is_in_transaction(producer_id, epoch):
        return None
    if version < FIRST_THAT_ADDS and not services.config.transaction_partition_verification_enable:
        return None
    return producer_id, epoch, first_sequence


def _rejection(error: ErrorCode, partition: Partition, transactional_id: str, version: int) -> KafkaError:
    name = f"{partition.topic}-{partition.index}"
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and version >= FIRST_THAT_ADDS:
        return KafkaError(f"the last transaction of {transactional_id!r} is not complete yet", error)
    if error in _TRY_AGAIN:
        detail = f"{error.name} while verifying that {name} is part of the transaction of {transactional_id!r}"
        return KafkaError(detail, ErrorCode.NOT_ENOUGH_REPLICAS)
    if error is ErrorCode.PRODUCER_FENCED:
        detail = f"a producer with a newer epoch has taken over {transactional_id!r}"
        return KafkaError(detail, ErrorCode.INVALID_PRODUCER_EPOCH)
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_WITH_ABORTABLE:
        error = ErrorCode.INVALID_TXN_STATE
    return KafkaError(f"{name} was not added to the transaction of {transactional_id!r}", error)
