"""DeleteAcls (31): delete the ACLs that filters match, and name them for each filter.

If the answer would be too long, none is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import ResponseBudget
from pylogbroker.broker.security.acl_requests import NO_AUTHORIZER, acl_filter
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasAuthorizer
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclBinding, AclFilter, AclOperation
from pylogbroker.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

_BYTES_PER_ACL: Final = 100


def _reject(context: RequestContext, request: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code, code.meaning)] * len(request.filters))


@serves(DeleteAclsRequest, access=[on_cluster(AclOperation.ALTER, _reject)])
async def handle(services: HasAuthorizer, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    if services.authorizer is None:
        rejected = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
        return DeleteAclsResponse(filter_results=[rejected] * len(request.filters))
    acls = services.authorizer.acls
    filters = [_checked(requested) async for requested in over(request.filters)]
    matched: dict[AclFilter, list[AclBinding]] = {}
    space = ResponseBudget()
    async for selector in over(filters):
        if isinstance(selector, AclFilter):
            if selector not in matched:
                matched[selector] = [binding async for binding in over(acls.index.select(selector))]
            try:
                space.take(_BYTES_PER_ACL * len(matched[selector]))
            except KafkaError as error:
                return DeleteAclsResponse(filter_results=[_error(error)] * len(filters))
    removed = await acls.remove(chain.from_iterable(matched.values()), context.principal)
    return DeleteAclsResponse(
        filter_results=[
            _error(checked) if isinstance(checked, KafkaError) else _result(matched[checked], removed)
            async for checked in over(filters)
        ]
    )


def _checked(selector: DeleteAclsFilter) -> AclFilter | KafkaError:
    try:
        return acl_filter(selector)
    except KafkaError as error:
        return error


def _error(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error.code, error.detail)


def _result(matched: Sequence[AclBinding], removed: Mapping[AclBinding, KafkaError | None]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[_matching(binding, removed[binding]) for binding in matched if binding in removed],
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
