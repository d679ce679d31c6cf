"""Whether records of a transaction may be appended: the transaction's coordinator must know of the partition (KIP-890).

A producer that lost touch may send records when its transaction is over. With nobody to end what they would begin, they
would hide all that follows from readers of committed records. The first batch of a transaction in a partition is
looked into, and the ones behind it belong to the transaction that is open there by then.

    what the coordinator says                 what a producer is answered
    ----------------------------------------  -------------------------------------------------------------
    TRANSACTION_ABORTABLE: not in it          the same, from Produce 11 on; INVALID_TXN_STATE below
    PRODUCER_FENCED                           INVALID_PRODUCER_EPOCH
    CONCURRENT_TRANSACTIONS, or that it is    NOT_ENOUGH_REPLICAS, after which every producer tries again
      loading or is not this broker
"""

from __future__ import annotations

import struct

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Buffer

_PRODUCER = struct.Struct(">qh")  # id and epoch
_PRODUCER_AT = 43
_FIRST_WITH_ABORTABLE = 11
_TRY_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def verify(services: Services, transactional_id: str, partition: Partition, batch: Buffer, version: int) -> None:
    """Refuse a transactional batch, of Produce `version`, whose transaction does not include the partition."""
    if len(batch) < _PRODUCER_AT + _PRODUCER.size:  # not a batch: the log will say so
        return
    producer_id, epoch = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
    if partition.log.producers.is_in_transaction(producer_id, epoch):
        return
    if not services.config.boolean("transaction.partition.verification.enable"):
        return
    key = partition.topic, partition.index
    error = services.transactions.verify(transactional_id, producer_id, epoch, [key])[key]
    if error:
        raise _rejection(error, partition, transactional_id, version)


def _rejection(error: ErrorCode, partition: Partition, transactional_id: str, version: int) -> KafkaError:
    name = f"{partition.topic}-{partition.index}"
    if error in _TRY_AGAIN:
        detail = f"{error.name} where it was asked if {name} is part of the transaction of {transactional_id!r}"
        return KafkaError(detail, ErrorCode.NOT_ENOUGH_REPLICAS)
    if error is ErrorCode.PRODUCER_FENCED:
        detail = f"a producer with a newer epoch has taken over {transactional_id!r}"
        return KafkaError(detail, ErrorCode.INVALID_PRODUCER_EPOCH)
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_WITH_ABORTABLE:
        error = ErrorCode.INVALID_TXN_STATE
    return KafkaError(f"{name} was not added to the transaction of {transactional_id!r}", error)
