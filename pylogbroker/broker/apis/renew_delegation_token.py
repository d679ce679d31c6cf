"""RenewDelegationToken (39): owner and renewers postpone the expiry of a token."""

from __future__ import annotations

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.delegation.requests import check_connection, enabled_tokens
from pylogbroker.broker.security.rules import by_handler
from pylogbroker.broker.services import HasTokens
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


@serves(RenewDelegationTokenRequest, access=[by_handler])
async def handle(
    services: HasTokens, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    try:
        check_connection(context)
        tokens = enabled_tokens(services)
        expiry_ms = await tokens.renew(context.principal, bytes(request.hmac), request.renew_period_ms)
    except KafkaError as error:
        return RenewDelegationTokenResponse(error.code, expiry_timestamp_ms=-1)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
