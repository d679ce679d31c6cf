"""CreateAcls (30): add ACLs, each for itself; those that exist are no error."""

from __future__ import annotations

from collections.abc import Mapping

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.acl_requests import NO_AUTHORIZER, new_binding
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasAuthorizer
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclBinding, AclOperation, ResourcePattern
from pylogbroker.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


def _reject(context: RequestContext, request: CreateAclsRequest, code: ErrorCode) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(code, code.meaning)] * len(request.creations))


@serves(CreateAclsRequest, access=[on_cluster(AclOperation.ALTER, _reject)])
async def handle(services: HasAuthorizer, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    if services.authorizer is None:
        rejected = AclCreationResult(ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
        return CreateAclsResponse(results=[rejected] * len(request.creations))
    outcomes = [_checked(creation) async for creation in over(request.creations)]
    by_resource: dict[ResourcePattern, list[AclBinding]] = {}
    async for candidate in over(outcomes):
        if isinstance(candidate, AclBinding):
            by_resource.setdefault(candidate.resource, []).append(candidate)
    failed: dict[ResourcePattern, KafkaError] = {}
    async for resource, bindings in over(by_resource.items()):
        try:
            entries = frozenset(binding.entry for binding in bindings)
            await services.authorizer.acls.add(resource, entries, context.principal)
        except KafkaError as error:
            failed[resource] = error
    return CreateAclsResponse(results=[_result(outcome, failed) async for outcome in over(outcomes)])


def _result(outcome: AclBinding | KafkaError, failed: Mapping[ResourcePattern, KafkaError]) -> AclCreationResult:
    error = failed.get(outcome.resource) if isinstance(outcome, AclBinding) else outcome
    return AclCreationResult() if error is None else AclCreationResult(error.code, error.detail)


def _checked(creation: AclCreation) -> AclBinding | KafkaError:
    try:
        return new_binding(creation)
    except KafkaError as error:
        return error
