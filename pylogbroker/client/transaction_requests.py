"""Requests of transactions, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from pylogbroker.client.partition_queue import ProducerIdentity
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.errors import error_of
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic

ADD_PARTITIONS_VERSION: Final = 3  # higher versions are for brokers only

Codes = Callable[[Any], list[int]]
"""Returns a response's error codes."""


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


def response_codes(response: Any) -> list[int]:
    return [response.error_code]


def partition_codes(response: Any) -> list[int]:
    """Omit OPERATION_NOT_ATTEMPTED unless alone."""
    topics = response.results_by_topic_v3_and_below
    codes = [row.partition_error_code for topic in topics for row in topic.results_by_partition]
    return [code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)] or codes


def offset_codes(response: Any) -> list[int]:
    return [row.error_code for topic in response.topics for row in topic.partitions]


def raise_first(codes: Iterable[int], where: str | None = None) -> None:
    """Raise the first error, if any; permanent ones before retriable ones."""
    errors = [error_of(code, where and f"{where}: {error_of(code).detail}") for code in codes if code]
    for error in sorted(errors, key=lambda error: error.code.retriable):
        raise error
