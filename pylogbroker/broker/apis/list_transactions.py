"""ListTransactions (66): the transactional ids that there are, by state, producer id and age."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


@serves(ListTransactionsRequest)
def handle(broker: Broker, context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Ask the coordinator."""
    found = broker.transactions.list(
        request.state_filters, request.producer_id_filters, request.duration_filter, broker.now_ms()
    )
    return ListTransactionsResponse(
        error_code=found.error,
        unknown_state_filters=list(found.unknown_states),
        transaction_states=[
            TransactionState(each.transactional_id, each.producer_id, each.state) for each in found.transactions
        ],
    )
