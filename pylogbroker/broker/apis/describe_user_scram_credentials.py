"""DescribeUserScramCredentials (50): mechanisms and iterations of users in the coordination tree."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.logger import Logger

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import duplicates, within_budget
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.security.scram_requests import NO_NAME, check_number_of_users
from pylogbroker.broker.services import HasScram
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.security.sasl.stored_credentials import MECHANISM_NUMBERS, BadCredential, decode
from pylogbroker.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

log = Logger()
_RESULT_BYTES = 40


def _reject(
    context: RequestContext, request: DescribeUserScramCredentialsRequest, code: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    """Name no user, and give no text, as Kafka does."""
    rejected = DescribeUserScramCredentialsResult("", code, None)
    return DescribeUserScramCredentialsResponse(
        error_code=code, error_message=None, results=[rejected] * len(request.users or ())
    )


@serves(DescribeUserScramCredentialsRequest, is_read=True, access=[on_cluster(AclOperation.DESCRIBE, _reject)])
async def handle(
    services: HasScram, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    try:
        return DescribeUserScramCredentialsResponse(error_message=None, results=await _results(services, request))
    except KafkaError as error:
        return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.detail)


async def _results(
    services: HasScram, request: DescribeUserScramCredentialsRequest
) -> list[DescribeUserScramCredentialsResult]:
    requested = [user.name for user in request.users or ()]
    check_number_of_users(len(requested))
    twice = duplicates(requested)
    names = list(dict.fromkeys(requested)) or await services.scram.names()
    credentials = await services.scram.read([name for name in names if name and name not in twice])
    settings = iter(credentials)
    results = []
    async for name in within_budget(names, lambda name: _RESULT_BYTES + len(name)):
        if not name:
            results.append(_failed(name, ErrorCode.RESOURCE_NOT_FOUND, NO_NAME))
        elif name in twice:
            text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            results.append(_failed(name, ErrorCode.DUPLICATE_RESOURCE, text))
        else:
            results += _described(name, next(settings), is_asked=bool(requested))
    return results


def _described(name: str, settings: object, *, is_asked: bool) -> Sequence[DescribeUserScramCredentialsResult]:
    infos = []
    try:
        if not isinstance(settings, dict):
            raise BadCredential(str(settings))
        for number, mechanism in MECHANISM_NUMBERS.items():
            if mechanism in settings:
                infos.append(CredentialInfo(number, decode(mechanism, settings[mechanism]).iterations))
    except BadCredential as error:
        log.error("the credentials of user {name} cannot be read: {why}", name=name, why=error)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        return [_failed(name, code, code.meaning)]
    if infos:
        return [DescribeUserScramCredentialsResult(name, error_message=None, credential_infos=infos)]
    text = f"Attempt to describe a user credential that does not exist: {name}"
    return [_failed(name, ErrorCode.RESOURCE_NOT_FOUND, text)] if is_asked else []


def _failed(name: str, code: ErrorCode, text: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(name, code, text)
