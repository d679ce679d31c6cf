"""AddPartitionsToTxn (24): partitions that a transaction is going to write to.

0  one transaction                       3  flexible
1  as 0                                  4  several transactions; to check alone, not to add
2  PRODUCER_FENCED in place of           5  TRANSACTION_ABORTABLE in place of INVALID_TXN_STATE
   INVALID_PRODUCER_EPOCH

All of a transaction's partitions are added or none: when one cannot be, the others are OPERATION_NOT_ATTEMPTED.
From 4 on brokers ask, also about partitions of `__consumer_offsets`, to which no client may write itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from pylogbroker.broker.apis.fencing import error_for
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.topics import INTERNAL_TOPICS
from pylogbroker.errors import ErrorCode
from pylogbroker.transactions import TopicPartition
from pylogbroker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker

_FIRST_WITH_FENCED = 2
_FIRST_WITH_SEVERAL = 4
_FIRST_WITH_ABORTABLE = 5

Errors = Mapping[TopicPartition, ErrorCode]


async def handle(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Add to each transaction, one after the other, or check."""
    if context.api_version >= _FIRST_WITH_SEVERAL:
        results = [
            AddPartitionsToTxnResult(asked.transactional_id, await _answer(broker, context, asked))
            for asked in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    asked = AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _answer(broker, context, asked))


async def _answer(
    broker: Broker, context: RequestContext, asked: AddPartitionsToTxnTransaction
) -> list[AddPartitionsToTxnTopicResult]:
    partitions = [(topic.name, index) for topic in asked.topics for index in topic.partitions]
    errors = _unfit(broker, partitions, from_client=context.api_version < _FIRST_WITH_SEVERAL)
    if not errors:
        errors = _check(broker, asked, partitions) if asked.verify_only else await _add(broker, asked, partitions)
    return _results(errors, asked.topics, context)


def _unfit(broker: Broker, partitions: Sequence[TopicPartition], from_client: bool) -> Errors:
    """What to answer if there are partitions that no client may write to, or that there are not."""
    bad = {key: error for key in partitions if (error := _fitness(broker, key, from_client))}
    return dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | bad if bad else {}


def _fitness(broker: Broker, key: TopicPartition, from_client: bool) -> ErrorCode:
    name, index = key
    if from_client and name in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = broker.catalog.topics.get(name)
    return ErrorCode.NONE if topic and index in topic.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _add(broker: Broker, asked: AddPartitionsToTxnTransaction, partitions: Sequence[TopicPartition]) -> Errors:
    replied: Deferred[ErrorCode] = Deferred()
    broker.transactions.add_partitions(
        asked.transactional_id, asked.producer_id, asked.producer_epoch, partitions, replied.callback, broker.now_ms()
    )
    return dict.fromkeys(partitions, await replied)


def _check(broker: Broker, asked: AddPartitionsToTxnTransaction, partitions: Sequence[TopicPartition]) -> Errors:
    return broker.transactions.verify(asked.transactional_id, asked.producer_id, asked.producer_epoch, partitions)


def _results(
    errors: Errors, topics: Sequence[AddPartitionsToTxnTopic], context: RequestContext
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, _error_for(errors[topic.name, index], context))
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _error_for(error: ErrorCode, context: RequestContext) -> ErrorCode:
    if error is ErrorCode.TRANSACTION_ABORTABLE and context.api_version < _FIRST_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return error_for(error, context, _FIRST_WITH_FENCED)
