"""DescribeTransactions (65): return the states of transactional ids."""

from __future__ import annotations

from itertools import compress
from typing import Any

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import ResponseBudget
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import Narrowed, on_each
from pylogbroker.broker.security.visibility import may_see_topic
from pylogbroker.broker.services import HasTransactions
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import mapped, over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.transactions import TransactionDescription
from pylogbroker.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def _may_describe(access: Access, transactional_id: str) -> bool:
    return access.allows_on_transactional_id(AclOperation.DESCRIBE, transactional_id)


def _rejected(transactional_id: str) -> TransactionState:
    return TransactionState(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id)


def _without_hidden_topics(services: HasTransactions, context: RequestContext, request: Any) -> Narrowed:
    def is_seen(topic: TopicData) -> bool:
        return may_see_topic(context, topic.topic)

    async def leave_out(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in response.transaction_states:
            state.topics = list(compress(state.topics, await mapped(is_seen, state.topics)))
        return response

    return Narrowed(request, leave_out)


@serves(
    DescribeTransactionsRequest,
    access=[on_each("transactional_ids", "transaction_states", _may_describe, _rejected), _without_hidden_topics],
)
async def handle(
    services: HasTransactions, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    space, response = ResponseBudget(), DescribeTransactionsResponse()
    async for name in over(dict.fromkeys(request.transactional_ids)):
        description = _fitting(services.transactions.describe(name), space)
        response.transaction_states.append(await _state(services, description))
    return response


def _fitting(description: TransactionDescription, space: ResponseBudget) -> TransactionDescription:
    try:
        space.take(sum(4 + len(topic) for topic, _ in description.partitions))
    except KafkaError as error:
        return TransactionDescription(error.code, description.transactional_id)
    return description


async def _state(services: HasTransactions, description: TransactionDescription) -> TransactionState:
    topics: dict[str, list[int]] = {}
    async for name, index in over(description.partitions):
        topics.setdefault(name, []).append(index)
    return TransactionState(
        description.error,
        description.transactional_id,
        description.state,
        description.timeout_ms,
        description.start_ms,
        description.producer_id,
        description.producer_epoch,
        [TopicData(name, sorted(indexes)) for name, indexes in sorted(topics.items())],
    )
