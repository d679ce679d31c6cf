"""Keys and values of the records in `__transaction_state`, in Kafka's format.

A key or value is an int16 version, then a struct below. For example, the transactional id `x`, Ongoing with producer id
7 at epoch 2, a timeout of 60 s, and partition 1 of topic `t`:

    key      0000  0001 78
             |     transactional id
             version
    value    0000  0000000000000007  0002   0000ea60  01      00000001 0001 74 00000001 00000001
             |     producer id       epoch  timeout   status  partitions, by topic
             version
             00000000000005dc  00000000000003e8
             last update       start of the transaction

Version 1 is written from level 1 of transaction.version on, else version 0; both are read. An Empty transactional id
has null partitions. A null value is a tombstone.
"""

from collections.abc import Iterable
from typing import Annotated

from pylogbroker.coordinators import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from pylogbroker.errors import CorruptRecords
from pylogbroker.records import Buffer
from pylogbroker.transactions.metadata import TransactionMetadata
from pylogbroker.transactions.states import TransactionState
from pylogbroker.wire import Versions, WireMessage
from pylogbroker.wire.schema import IGNORABLE, Int8, Int16, Int32, Int64, Since, String, Tag, fresh, struct
from pylogbroker.wire.versioned_messages import decode, encode, version_of

_KEY_VERSION = 0
_FIRST_WITH_FLEXIBLE_VALUES = 1  # level of transaction.version

_UNSTORED_STATES = (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)


@struct
class TransactionLogKey(WireMessage):
    versions = Versions(0, 0)

    transactional_id: String = ""


@struct
class PartitionsSchema:
    topic: String = ""
    partition_ids: list[Int32] = fresh(list)


@struct
class TransactionLogValue(WireMessage):
    """A start of -1 is none."""

    versions = Versions(0, 1, flexible=1)

    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, Since(1), Tag(0), IGNORABLE] = NO_PRODUCER_ID
    next_producer_id: Annotated[Int64, Since(1), Tag(1), IGNORABLE] = NO_PRODUCER_ID
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, Since(1), Tag(3), IGNORABLE] = NO_PRODUCER_EPOCH
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = fresh(list)
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, Since(1), Tag(2), IGNORABLE] = 0


def encode_key(transactional_id: str) -> bytes:
    return encode(TransactionLogKey(transactional_id), _KEY_VERSION)


def decode_key(key: Buffer) -> str | None:
    """Return None for unknown versions."""
    if version_of(key) not in TransactionLogKey.versions:
        return None
    return decode(TransactionLogKey, key).transactional_id


def encode_value(metadata: TransactionMetadata, transaction_version: int = 0) -> bytes:
    """Encode for a level of transaction.version."""
    empty = metadata.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.last_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None if empty else _by_topic(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.updated_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    return encode(value, int(transaction_version >= _FIRST_WITH_FLEXIBLE_VALUES))


def decode_value(buffer: Buffer) -> TransactionMetadata:
    value = decode(TransactionLogValue, buffer)
    return TransactionMetadata(
        value.producer_id,
        value.producer_epoch,
        _state(value.transaction_status),
        value.transaction_timeout_ms,
        frozenset(
            (topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        last_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def _state(number: int) -> TransactionState:
    try:
        state = TransactionState(number)  # type: ignore[call-arg]
    except ValueError:
        raise CorruptRecords(f"{number} is not a transaction's state") from None
    if state in _UNSTORED_STATES:
        raise CorruptRecords(f"{state.label} is not a state to be stored")
    return state


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        if topic in indexes:
            indexes[topic].append(index)
        else:
            indexes[topic] = [index]
    return [PartitionsSchema(topic, sorted(indexes[topic])) for topic in sorted(indexes)]
