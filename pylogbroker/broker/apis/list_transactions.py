"""ListTransactions (66): list transactional ids by state, producer id, duration and regular expression.

Expressions are of RE2, and must match the whole id: they take time that is linear in the id's length.

If the answer would be too long, none is listed.
"""

from __future__ import annotations

from typing import Final, Protocol

import re2

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import within_budget
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import shows
from pylogbroker.broker.services import HasRuntime, HasTransactions
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.transactions import TransactionOverview
from pylogbroker.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_TRANSACTION_BYTES: Final = 40  # besides the id
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False


class _Services(HasRuntime, HasTransactions, Protocol):
    """Services that this API uses."""


def _may_describe(access: Access, transaction: TransactionState) -> bool:
    return access.allows(
        AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, transaction.transactional_id, quietly=True
    )


@serves(ListTransactionsRequest, access=[shows("transaction_states", _may_describe)])
async def handle(
    services: _Services, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = re2.compile(request.transactional_id_pattern, _OPTIONS)
        except re2.error:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    listing = await services.transactions.list(
        request.state_filters, request.producer_id_filters, request.duration_filter, services.runtime.now_ms()
    )
    transactions = list(listing.transactions)
    if pattern is not None:
        transactions = [entry async for entry in over(transactions) if pattern.fullmatch(entry.transactional_id)]
    try:
        states = [
            TransactionState(transaction.transactional_id, transaction.producer_id, transaction.state)
            async for transaction in within_budget(transactions, _size)
        ]
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    return ListTransactionsResponse(
        error_code=listing.error, unknown_state_filters=list(listing.unknown_states), transaction_states=states
    )


def _size(transaction: TransactionOverview) -> int:
    return _TRANSACTION_BYTES + len(transaction.transactional_id)
