"""ListTransactions (66): list transactional ids by state, producer id and duration."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import shows
from pylogbroker.broker.services import Services
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


def _may_describe(access: Access, found: TransactionState) -> bool:
    return access.allows(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, found.transactional_id, quietly=True)


@serves(ListTransactionsRequest, access=[shows("transaction_states", _may_describe)])
async def handle(
    services: Services, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    slices = services.runtime.slices
    found = await slices.run(
        services.transactions.list(
            request.state_filters, request.producer_id_filters, request.duration_filter, services.runtime.now_ms()
        )
    )
    return ListTransactionsResponse(
        error_code=found.error,
        unknown_state_filters=list(found.unknown_states),
        transaction_states=[
            TransactionState(each.transactional_id, each.producer_id, each.state)
            async for each in slices.over(found.transactions)
        ],
    )
