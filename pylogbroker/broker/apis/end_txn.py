"""EndTxn (26): commit or abort a transaction; answered when the decision is stored, before markers are written.

From version 5 on, each transaction has an epoch of its own, and the answer has that of the next one.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Protocol

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.completed_transactions import ask_when_complete
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.producer_fencing import error_for
from pylogbroker.broker.security.rules import on_transactional_id
from pylogbroker.broker.services import HasRuntime, HasTransactions
from pylogbroker.coordinators import Reply
from pylogbroker.errors import ErrorCode
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.transactions import EndResult, EndTransaction
from pylogbroker.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_FIRST_WITH_FENCED = 2
_FIRST_WITH_NEXT = 5


class _Services(HasRuntime, HasTransactions, Protocol):
    """Services that this API uses."""


@serves(EndTxnRequest, access=[on_transactional_id(AclOperation.WRITE)])
async def handle(services: _Services, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    if context.api_version >= _FIRST_WITH_NEXT:
        result = await _end_for_next(services, context, request)
        return EndTxnResponse(0, result.error, result.producer_id, result.producer_epoch)
    replied: Deferred[ErrorCode] = Deferred()
    services.transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        replied.callback,
        services.runtime.now_ms(),
    )
    return EndTxnResponse(error_code=error_for(await replied, context, _FIRST_WITH_FENCED))


async def _end_for_next(services: _Services, context: RequestContext, request: EndTxnRequest) -> EndResult:
    """End a transaction once the last one is complete; a retry waits for the markers of its own."""
    end = EndTransaction(request.transactional_id, request.producer_id, request.producer_epoch, request.committed)

    def ask(reply: Reply[EndResult]) -> None:
        services.transactions.end_for_next(end, reply, services.runtime.now_ms())

    return await ask_when_complete(services, context.caller, request.transactional_id, ask, attrgetter("error"))
