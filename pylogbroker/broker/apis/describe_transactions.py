"""DescribeTransactions (65): return the states of transactional ids."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.limits import ResponseBudget
from pylogbroker.broker.services import Services
from pylogbroker.errors import KafkaError
from pylogbroker.transactions import TransactionDescription
from pylogbroker.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


@serves(DescribeTransactionsRequest)
async def handle(
    services: Services, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    space, response = ResponseBudget(), DescribeTransactionsResponse()
    async for name in services.runtime.slices.over(dict.fromkeys(request.transactional_ids)):
        found = _fitting(services.transactions.describe(name), space)
        response.transaction_states.append(await _state(services, found))
    return response


def _fitting(found: TransactionDescription, space: ResponseBudget) -> TransactionDescription:
    try:
        space.take(sum(4 + len(topic) for topic, _ in found.partitions))
    except KafkaError as error:
        return TransactionDescription(error.code, found.transactional_id)
    return found


async def _state(services: Services, found: TransactionDescription) -> TransactionState:
    topics: dict[str, list[int]] = {}
    async for name, index in services.runtime.slices.over(found.partitions):
        topics.setdefault(name, []).append(index)
    return TransactionState(
        found.error,
        found.transactional_id,
        found.state,
        found.timeout_ms,
        found.start_ms,
        found.producer_id,
        found.producer_epoch,
        [TopicData(name, sorted(indexes)) for name, indexes in sorted(topics.items())],
    )
