"""DeleteGroups (42): delete groups without members, with their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


@serves(DeleteGroupsRequest)
def handle(broker: Broker, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete each group, once."""
    now_ms = broker.now_ms()
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id, broker.groups.delete_group(group_id, now_ms))
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )
