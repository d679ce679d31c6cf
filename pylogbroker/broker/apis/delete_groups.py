"""DeleteGroups (42): delete groups without members, with their offsets."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


@serves(DeleteGroupsRequest)
def handle(services: Services, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    now_ms = services.runtime.now_ms()
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id, services.groups.delete_group(group_id, now_ms))
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )
