"""DeleteAcls (31): delete the ACLs that filters match, and name them."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.security.acl_requests import NO_AUTHORIZER, acl_filter
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclBinding, AclFilter, AclOperation
from pylogbroker.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def _reject(context: RequestContext, request: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code, code.meaning)] * len(request.filters))


@serves(DeleteAclsRequest, access=[on_cluster(AclOperation.ALTER, _reject)])
async def handle(services: Services, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    if services.authorizer is None:
        rejected = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
        return DeleteAclsResponse(filter_results=[rejected] * len(request.filters))
    filters = [_checked(each) for each in request.filters]
    removed = await services.authorizer.acls.remove([each for each in filters if isinstance(each, AclFilter)])
    return DeleteAclsResponse(filter_results=[_result(each, removed) for each in filters])


def _checked(wanted: DeleteAclsFilter) -> AclFilter | KafkaError:
    try:
        return acl_filter(wanted)
    except KafkaError as error:
        return error


def _result(wanted: AclFilter | KafkaError, removed: dict[AclBinding, KafkaError | None]) -> DeleteAclsFilterResult:
    if isinstance(wanted, KafkaError):
        return DeleteAclsFilterResult(wanted.code, wanted.detail)
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[_matching(each, error) for each, error in removed.items() if wanted.matches(each)],
    )


def _matching(binding: AclBinding, error: KafkaError | None) -> DeleteAclsMatchingAcl:
    resource, entry = binding.resource, binding.entry
    return DeleteAclsMatchingAcl(
        error.code if error else ErrorCode.NONE,
        error.detail if error else None,
        resource.type,
        resource.name,
        resource.pattern,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission,
    )
