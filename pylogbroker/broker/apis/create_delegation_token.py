"""CreateDelegationToken (38): a token for the sender, or for another owner if the sender may create the owner's."""

from __future__ import annotations

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.delegation.requests import check_connection, check_users, enabled_tokens, principals_of
from pylogbroker.broker.security.rules import by_handler
from pylogbroker.broker.services import HasTokens
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.security.delegation.tokens import IssuedToken
from pylogbroker.security.principals import parts
from pylogbroker.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

_WITH_REQUESTER = 3


@serves(CreateDelegationTokenRequest, access=[by_handler])
async def handle(
    services: HasTokens, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    owner = context.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type or ''}:{request.owner_principal_name}"
    kind, name = parts(owner)
    answer = CreateDelegationTokenResponse(
        principal_type=kind, principal_name=name, issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1
    )
    if context.api_version >= _WITH_REQUESTER:
        requester = parts(context.principal)
        answer.token_requester_principal_type, answer.token_requester_principal_name = requester
    try:
        issued = await _create(services, context, request, owner)
    except KafkaError as error:
        answer.error_code = error.code
        return answer
    answer.issue_timestamp_ms = issued.token.issued_ms
    answer.expiry_timestamp_ms = issued.token.expires_ms
    answer.max_timestamp_ms = issued.token.max_ms
    answer.token_id = issued.token.token_id
    answer.hmac = issued.hmac
    return answer


async def _create(
    services: HasTokens, context: RequestContext, request: CreateDelegationTokenRequest, owner: str
) -> IssuedToken:
    check_connection(context)
    if owner != context.principal and not _may_create_tokens_of(context, owner):
        raise KafkaError(code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    renewers = principals_of(request.renewers)
    check_users((owner, *renewers))
    return await enabled_tokens(services).create(owner, context.principal, renewers, request.max_lifetime_ms)


def _may_create_tokens_of(context: RequestContext, owner: str) -> bool:
    access = context.access
    return access is None or access.allows(AclOperation.CREATE_TOKENS, AclResourceType.USER, owner)
