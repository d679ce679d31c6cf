"""ExpireDelegationToken (40): owner and renewers delete a token, or change its expiry."""

from __future__ import annotations

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.delegation.requests import check_connection, enabled_tokens
from pylogbroker.broker.security.rules import by_handler
from pylogbroker.broker.services import HasTokens
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


@serves(ExpireDelegationTokenRequest, access=[by_handler])
async def handle(
    services: HasTokens, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    try:
        check_connection(context)
        tokens = enabled_tokens(services)
        expiry_ms = await tokens.expire(context.principal, bytes(request.hmac), request.expiry_time_period_ms)
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error.code, expiry_timestamp_ms=-1)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
