"""AddPartitionsToTxn (24): add the partitions that a transaction will write to.

If one cannot be added, the others get OPERATION_NOT_ATTEMPTED. Since version 4 brokers send the request, also for
`__consumer_offsets`, to which no client may write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Protocol

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.completed_transactions import add_when_complete
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.producer_fencing import error_for
from pylogbroker.broker.security.rejections import reject_partitions, reject_topics
from pylogbroker.broker.security.rules import Narrowed
from pylogbroker.broker.services import HasMetadata, HasRuntime, HasTransactions
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import give_way, mapped, over
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.transactions.metadata import TRANSACTIONS_V2
from pylogbroker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_FIRST_WITH_FENCED = 2
_FIRST_WITH_SEVERAL = 4
_FIRST_WITH_ABORTABLE = 5

Errors = Mapping[TopicPartition, ErrorCode]


_reject = reject_topics(
    lambda topics: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics),
    reject_partitions(AddPartitionsToTxnTopicResult, AddPartitionsToTxnPartitionResult),
    "v3_and_below_topics",
)


class _Services(HasRuntime, HasMetadata, HasTransactions, Protocol):
    """Services that this API uses."""


def _narrow(services: _Services, context: RequestContext, request: AddPartitionsToTxnRequest) -> Narrowed | None:
    access = context.required_access
    if context.api_version >= _FIRST_WITH_SEVERAL:
        if access.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            return None
        return Narrowed(None, lambda _: AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if access.allows_on_transactional_id(AclOperation.WRITE, request.v3_and_below_transactional_id):
        return None
    return Narrowed(None, lambda _: _reject(context, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))


@serves(AddPartitionsToTxnRequest, access=[_narrow])
async def handle(
    services: _Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Add or verify the partitions of each transaction; hold back the connection until they are checked."""
    transactions = _transactions(context, request)
    writable = await _writable_topics(context, transactions)
    checks = []
    for transaction in transactions:
        await give_way()
        partitions = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
        checks.append((transaction, partitions, await _check_all(services, partitions, writable)))
    return await _add_to_each(services, context, checks)


def _transactions(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> Sequence[AddPartitionsToTxnTransaction]:
    if context.api_version >= _FIRST_WITH_SEVERAL:
        return request.transactions
    transaction = AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return [transaction]


async def _add_to_each(
    services: _Services,
    context: RequestContext,
    checks: Sequence[tuple[AddPartitionsToTxnTransaction, Sequence[TopicPartition], Errors]],
) -> AddPartitionsToTxnResponse:
    additions = [
        _add(services, context, transaction, partitions) if not errors and not transaction.verify_only else None
        async for transaction, partitions, errors in over(checks)
    ]
    results = []
    async for (transaction, partitions, errors), addition in over(list(zip(checks, additions, strict=True))):
        if addition is not None:
            errors = dict.fromkeys(partitions, await addition)
        elif not errors:
            errors = _verify(services, transaction, partitions)
        results.append(await _results(errors, transaction.topics, context))
    if context.api_version < _FIRST_WITH_SEVERAL:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0])
    answered = [
        AddPartitionsToTxnResult(check[0].transactional_id, by) for check, by in zip(checks, results, strict=True)
    ]
    return AddPartitionsToTxnResponse(results_by_transaction=answered)


async def _check_all(services: _Services, partitions: Sequence[TopicPartition], writable: Collection[str]) -> Errors:
    errors = await mapped(partial(_check, services, writable), partitions)
    if not any(errors):
        return {}
    return {key: error or ErrorCode.OPERATION_NOT_ATTEMPTED for key, error in zip(partitions, errors, strict=True)}


async def _writable_topics(
    context: RequestContext, transactions: Sequence[AddPartitionsToTxnTransaction]
) -> Collection[str]:
    """Return the topics that the sender may write to: a broker to all, a client to none of the broker's own."""
    names = {topic.name for transaction in transactions for topic in transaction.topics}
    if context.api_version >= _FIRST_WITH_SEVERAL:
        return names
    names -= set(INTERNAL_TOPICS)
    if context.access is None:
        return names
    may_write = partial(context.access.allows_on_topic, AclOperation.WRITE)
    return set(compress(names, await mapped(may_write, names)))


def _check(services: _Services, writable: Collection[str], key: TopicPartition) -> ErrorCode:
    name, index = key
    if name not in writable:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = services.metadata.topics.get(name)
    return ErrorCode.NONE if topic and index in topic.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _add(
    services: _Services,
    context: RequestContext,
    transaction: AddPartitionsToTxnTransaction,
    partitions: Sequence[TopicPartition],
) -> Awaitable[ErrorCode]:
    """Add partitions. A broker hears at once that it has to try again: its request is about other producers, too."""
    producer = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    if context.api_version < _FIRST_WITH_SEVERAL:
        return add_when_complete(services, context.caller, *producer, partitions)
    added: Deferred[ErrorCode] = Deferred()
    now_ms = services.runtime.now_ms()
    services.transactions.add_partitions(*producer, partitions, added.callback, now_ms, TRANSACTIONS_V2)
    return added


def _verify(
    services: _Services, transaction: AddPartitionsToTxnTransaction, partitions: Sequence[TopicPartition]
) -> Errors:
    return services.transactions.verify(
        transaction.transactional_id, transaction.producer_id, transaction.producer_epoch, partitions
    )


async def _results(
    errors: Errors, topics: Sequence[AddPartitionsToTxnTopic], context: RequestContext
) -> list[AddPartitionsToTxnTopicResult]:
    results = []
    for topic in topics:
        partitions = await mapped(partial(_result, errors, context, topic.name), topic.partitions)
        results.append(AddPartitionsToTxnTopicResult(topic.name, partitions))
    return results


def _result(errors: Errors, context: RequestContext, topic: str, index: int) -> AddPartitionsToTxnPartitionResult:
    return AddPartitionsToTxnPartitionResult(index, _error_for(errors[topic, index], context))


def _error_for(error: ErrorCode, context: RequestContext) -> ErrorCode:
    if error is ErrorCode.TRANSACTION_ABORTABLE and context.api_version < _FIRST_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return error_for(error, context, _FIRST_WITH_FENCED)
