"""DescribeDelegationToken (41): tokens that the sender owns, requested or may renew, and those it may describe."""

from __future__ import annotations

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import ResponseBudget
from pylogbroker.broker.security.delegation.requests import check_connection, enabled_tokens, principal_of
from pylogbroker.broker.security.rules import by_handler
from pylogbroker.broker.services import DelegationTokens, HasTokens
from pylogbroker.errors import KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.security.delegation.tokens import DelegationToken, IssuedToken
from pylogbroker.security.principals import parts
from pylogbroker.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

_WITH_REQUESTER = 3
_TOKEN_BYTES = 200


@serves(DescribeDelegationTokenRequest, is_read=True, access=[by_handler])
async def handle(
    services: HasTokens, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    try:
        check_connection(context)
        tokens = await _described(enabled_tokens(services), context, request)
        return DescribeDelegationTokenResponse(tokens=tokens)
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error.code)


async def _described(
    tokens: DelegationTokens, context: RequestContext, request: DescribeDelegationTokenRequest
) -> list[DescribedDelegationToken]:
    if request.owners == []:
        return []
    owners: set[str] = set()
    async for owner in over(request.owners or ()):
        owners.add(principal_of(owner))
    sender = {context.principal}
    budget = ResponseBudget()

    def is_wanted(token: DelegationToken) -> bool:
        if request.owners is not None and not token.concerns(owners):
            return False
        if not (token.concerns(sender) or _may_describe(context, token)):
            return False
        budget.take(_TOKEN_BYTES + sum(map(len, (token.owner, token.requester, *token.renewers))))
        return True

    selected = await tokens.select(is_wanted)
    return [_result(context, issued) async for issued in over(selected)]


def _may_describe(context: RequestContext, token: DelegationToken) -> bool:
    access = context.access
    if access is None:
        return True
    return access.allows(
        AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id, quietly=True
    ) or access.allows(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner, quietly=True)


def _result(context: RequestContext, issued: IssuedToken) -> DescribedDelegationToken:
    token = issued.token
    kind, name = parts(token.owner)
    result = DescribedDelegationToken(
        kind,
        name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=issued.hmac,
        renewers=[DescribedDelegationTokenRenewer(*parts(renewer)) for renewer in token.renewers],
    )
    if context.api_version >= _WITH_REQUESTER:
        requester = parts(token.requester)
        result.token_requester_principal_type, result.token_requester_principal_name = requester
    return result
