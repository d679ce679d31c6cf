"""ListGroups (16): list the groups here; incomplete, with COORDINATOR_LOAD_IN_PROGRESS, while shards are loading."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.groups import GROUP_TYPE
from pylogbroker.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


@serves(ListGroupsRequest)
async def handle(services: Services, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    slices = services.runtime.slices
    error, groups = await slices.run(services.groups.list_groups(request.states_filter, request.types_filter))
    return ListGroupsResponse(
        error_code=error,
        groups=[
            ListedGroup(group.group_id, group.protocol_type, group.state, GROUP_TYPE)
            async for group in slices.over(groups)
        ],
    )
