"""DeleteGroups (42): delete groups without members, with their offsets."""

from __future__ import annotations

from collections.abc import Generator

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.broker.slices import inline_if_short
from pylogbroker.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


@serves(DeleteGroupsRequest)
def handle(
    services: Services, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Generator[None, None, DeleteGroupsResponse]:
    return inline_if_short(_delete(services, request), len(request.groups_names))


def _delete(services: Services, request: DeleteGroupsRequest) -> Generator[None, None, DeleteGroupsResponse]:
    now_ms, response = services.runtime.now_ms(), DeleteGroupsResponse()
    for group_id in dict.fromkeys(request.groups_names):
        response.results.append(DeletableGroupResult(group_id, services.groups.delete_group(group_id, now_ms)))
        yield
    return response
