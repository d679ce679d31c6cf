"""AlterUserScramCredentials (51): each user's change succeeds or fails alone. Only the controller makes changes."""

from __future__ import annotations

from typing import Protocol

from twisted.logger import Logger

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.security.scram_requests import UserChange, named_users, user_changes
from pylogbroker.broker.services import HasController, HasRuntime, HasSasl, HasScram
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import in_order, mapped, over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

log = Logger()


class _Services(HasRuntime, HasController, HasSasl, HasScram, Protocol):
    """Services that this API uses."""


async def _reject(
    context: RequestContext, request: AlterUserScramCredentialsRequest, code: ErrorCode
) -> AlterUserScramCredentialsResponse:
    def reject(name: str) -> AlterUserScramCredentialsResult:
        return AlterUserScramCredentialsResult(name, code, code.meaning)

    names = await in_order(list(named_users(request)))
    return AlterUserScramCredentialsResponse(results=await mapped(reject, names))


@serves(AlterUserScramCredentialsRequest, access=[on_cluster(AclOperation.ALTER, _reject)])
async def handle(
    services: _Services, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    try:
        services.controller.check_is_controller()
    except KafkaError as error:
        return await _reject(context, request, error.code)
    results = []
    changes = await services.runtime.in_thread(user_changes, request)
    async for name, change in over(changes.items()):
        failure = await _attempt(services, context, name, change)
        results.append(
            AlterUserScramCredentialsResult(name, error_message=None)
            if failure is None
            else AlterUserScramCredentialsResult(name, failure.code, failure.detail)
        )
    return AlterUserScramCredentialsResponse(results=results)


async def _attempt(services: _Services, context: RequestContext, name: str, change: UserChange) -> KafkaError | None:
    if change.error is not None:
        return change.error
    try:
        await services.scram.alter(name, change.applied)
    except KafkaError as error:
        return error
    log.info(
        "{principal} changed the credentials of User:{name}: {change}",
        principal=context.principal,
        name=name,
        change=change,
    )
    if services.sasl is not None and services.sasl.is_local(name):
        log.warn("User:{name} is in the file of users, too, and only that counts for this broker", name=name)
    return None
