"""Verification that a transaction includes the partition where its records go (KIP-890).

Otherwise late records, from a producer that lost its connection, could follow the transaction's end. Without a marker
they would hide later records from readers of committed records. Only a transaction's first batch in a partition is
verified.

    coordinator's answer                      error for the producer
    ----------------------------------------  -------------------------------------------------------------
    TRANSACTION_ABORTABLE: not part of it     the same, from Produce 11 on; INVALID_TXN_STATE before
    PRODUCER_FENCED                           INVALID_PRODUCER_EPOCH
    CONCURRENT_TRANSACTIONS, or it loads or   NOT_ENOUGH_REPLICAS, after which every producer tries again
      is another broker
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
    """Raise KafkaError if a batch's transaction does not include the partition; `version` is of Produce."""
    if len(batch) < _PRODUCER_AT + _PRODUCER.size:  # the log will reject it
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
        detail = f"{error.name} while verifying that {name} is part of the transaction of {transactional_id!r}"
        return KafkaError(detail, ErrorCode.NOT_ENOUGH_REPLICAS)
    if error is ErrorCode.PRODUCER_FENCED:
        detail = f"a producer with a newer epoch has taken over {transactional_id!r}"
        return KafkaError(detail, ErrorCode.INVALID_PRODUCER_EPOCH)
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_WITH_ABORTABLE:
        error = ErrorCode.INVALID_TXN_STATE
    return KafkaError(f"{name} was not added to the transaction of {transactional_id!r}", error)
