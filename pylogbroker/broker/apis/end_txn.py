"""EndTxn (26): commit or abort a transaction; answered when the decision is stored, before markers are written."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.producer_fencing import error_for
from pylogbroker.broker.security.rules import on_transactional_id
from pylogbroker.broker.services import HasRuntime, HasTransactions
from pylogbroker.errors import ErrorCode
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_FIRST_WITH_FENCED = 2


class _Services(HasRuntime, HasTransactions, Protocol):
    """Services that this API uses."""


@serves(EndTxnRequest, access=[on_transactional_id(AclOperation.WRITE)])
async def handle(services: _Services, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
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
