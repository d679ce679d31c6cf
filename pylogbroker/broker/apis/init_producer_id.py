"""InitProducerId (22): assign a producer id and epoch to an idempotent or transactional producer.

Without transactional id every call gets a new producer id. With one, the coordinator stores id and epoch, and aborts an
earlier producer's open transaction.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.completed_transactions import ask_when_complete
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.producer_fencing import error_for
from pylogbroker.broker.security.rules import Narrowed
from pylogbroker.broker.services import HasProducerIds, HasRuntime, HasTransactions
from pylogbroker.coordinators import Reply
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.transactions import InitProducerId, InitResult
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_FIRST_WITH_FENCED = 4


class _Services(HasRuntime, HasTransactions, HasProducerIds, Protocol):
    """Services that this API uses."""


def _check_access(services: _Services, context: RequestContext, request: InitProducerIdRequest) -> Narrowed | None:
    access = context.required_access
    if request.transactional_id is not None:
        allowed = access.allows_on_transactional_id(AclOperation.WRITE, request.transactional_id)
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        is_idempotent = access.allows_on_cluster(AclOperation.IDEMPOTENT_WRITE, quietly=True)
        allowed = is_idempotent or access.allows_on_any_topic(AclOperation.WRITE)
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None if allowed else Narrowed(None, lambda _: _error_response(code))


@serves(InitProducerIdRequest, access=[_check_access])
async def handle(
    services: _Services, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _error_response(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return await _any_id(services)
    result = await _ask(services, context, request.transactional_id, request)
    if result.error:
        return _error_response(error_for(result.error, context, _FIRST_WITH_FENCED))
    return InitProducerIdResponse(producer_id=result.producer_id, producer_epoch=result.producer_epoch)


async def _any_id(services: _Services) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await services.producer_ids.take(), producer_epoch=0)
    except KafkaError as error:
        return _error_response(error.code)


async def _ask(
    services: _Services, context: RequestContext, transactional_id: str, request: InitProducerIdRequest
) -> InitResult:
    initialization = InitProducerId(
        transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
    )

    def ask(reply: Reply[InitResult]) -> None:
        services.transactions.init_producer_id(initialization, reply, services.runtime.now_ms())

    return await ask_when_complete(services, context.caller, transactional_id, ask, attrgetter("error"))


def _error_response(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
