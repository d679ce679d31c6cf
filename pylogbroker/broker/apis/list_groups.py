"""ListGroups (16): list the groups here; incomplete, with COORDINATOR_LOAD_IN_PROGRESS, while shards are loading.

If the answer would be too long, none is listed.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import within_budget
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import shows
from pylogbroker.broker.services import HasGroups
from pylogbroker.errors import KafkaError
from pylogbroker.groups import GroupOverview
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_GROUP_BYTES: Final = 50  # besides names


def _may_list(access: Access, group: ListedGroup) -> bool:
    return access.allows_on_cluster(AclOperation.DESCRIBE, quietly=True) or access.allows(
        AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id, quietly=True
    )


@serves(ListGroupsRequest, access=[shows("groups", _may_list)])
async def handle(services: HasGroups, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    error, groups = await services.groups.list_groups(request.states_filter, request.types_filter)
    try:
        listed = [
            ListedGroup(group.group_id, group.protocol_type, group.state, group.type)
            async for group in within_budget(groups, _size)
        ]
    except KafkaError as failure:
        return ListGroupsResponse(error_code=failure.code)
    return ListGroupsResponse(error_code=error, groups=listed)


def _size(group: GroupOverview) -> int:
    return _GROUP_BYTES + len(group.group_id) + len(group.protocol_type)
