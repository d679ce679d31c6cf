"""DeleteGroups (42): delete groups without members, with their offsets."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import on_each
from pylogbroker.broker.services import HasGroups, HasRuntime
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


class _Services(HasRuntime, HasGroups, Protocol):
    """Services that this API uses."""


def _may_delete(access: Access, group_id: str) -> bool:
    return access.allows_on_group(AclOperation.DELETE, group_id)


def _rejected(group_id: str) -> DeletableGroupResult:
    return DeletableGroupResult(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)


@serves(DeleteGroupsRequest, access=[on_each("groups_names", "results", _may_delete, _rejected)])
async def handle(services: _Services, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    now_ms, deletions = services.runtime.now_ms(), {}
    async for group_id in over(dict.fromkeys(request.groups_names)):
        deletions[group_id] = deleted = Deferred[ErrorCode]()
        services.groups.delete(group_id, deleted.callback, now_ms)
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id, await deleted) for group_id, deleted in deletions.items()]
    )
