"""Requests of transactions, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from pylogbroker.client.partition_queue import ProducerIdentity
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import error_of
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic

ADD_PARTITIONS_VERSION: Final = 3  # higher versions are for brokers only
TRANSACTION_VERSION: Final = "transaction.version"
"""Feature of the cluster that says which transactions it has."""
TRANSACTIONS_V2: Final = 2
"""Level from which on records and offsets add their partition, and each transaction has an epoch of its own."""
PRODUCE_VERSION: Final = 12
TXN_OFFSET_COMMIT_VERSION: Final = 5
END_TXN_VERSION: Final = 5
"""Versions in transactions v2. Older ones are those of older transactions."""

Codes = Callable[[Any, Any], list[int]]
"""Returns the error codes of the response to a request; raises WrongRows."""
_COORDINATOR: Final = "the coordinator"


def add_partitions_request(
    transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, AddPartitionsToTxnTopic(topic)).partitions.append(partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=list(topics.values()),
    )


def response_codes(_: Any, response: Any) -> list[int]:
    return [response.error_code]


def partition_codes(request: AddPartitionsToTxnRequest, response: Any) -> list[int]:
    """Omit OPERATION_NOT_ATTEMPTED unless alone."""
    keys = ((topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions)
    path = "results_by_topic_v3_and_below.results_by_partition"
    codes = [row.partition_error_code for row in rows_by_key(response, path, _COORDINATOR, keys, _key).values()]
    return [code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)] or codes


def offset_codes(request: Any, response: Any) -> list[int]:
    """Return the codes of a request that commits offsets, inside a transaction or not."""
    keys = (_key(topic, partition) for topic in request.topics for partition in topic.partitions)
    return [row.error_code for row in rows_by_key(response, "topics.partitions", _COORDINATOR, keys, _key).values()]


def _key(topic: Any, partition: Any) -> TopicPartition:
    return topic.name, partition.partition_index


def raise_first(codes: Iterable[int], where: str | None = None) -> None:
    """Raise the first error, if any; permanent ones before retriable ones."""
    errors = [error_of(code, where and f"{where}: {error_of(code).detail}") for code in codes if code]
    for error in sorted(errors, key=lambda error: error.code.retriable):
        raise error
