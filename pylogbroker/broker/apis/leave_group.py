"""LeaveGroup (13): remove members from a group. Before version 3 the one member's error is the response's."""

from __future__ import annotations

from collections.abc import Generator

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.security.rules import on_group
from pylogbroker.broker.services import Services
from pylogbroker.broker.slices import ITEMS_INLINE_MAX, inline_if_short
from pylogbroker.groups import Leaving
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

_FIRST_WITH_SEVERAL = 3


@serves(LeaveGroupRequest, access=[on_group(AclOperation.READ)])
def handle(
    services: Services, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Generator[None, None, LeaveGroupResponse]:
    if context.api_version < _FIRST_WITH_SEVERAL:
        left = services.groups.leave(request.group_id, [Leaving(request.member_id)], services.runtime.now_ms())
        return LeaveGroupResponse(error_code=left.error or left.members[0])
    return inline_if_short(_leave(services, request), len(request.members))


def _leave(services: Services, request: LeaveGroupRequest) -> Generator[None, None, LeaveGroupResponse]:
    response = LeaveGroupResponse()
    for start in range(0, max(len(request.members), 1), ITEMS_INLINE_MAX):
        some = request.members[start : start + ITEMS_INLINE_MAX]
        leaving = [Leaving(member.member_id, member.group_instance_id) for member in some]
        left = services.groups.leave(request.group_id, leaving, services.runtime.now_ms())
        if left.error:
            return LeaveGroupResponse(error_code=left.error)
        response.members += [
            MemberResponse(member.member_id, member.group_instance_id, error)
            for member, error in zip(some, left.members, strict=True)
        ]
        yield
    return response
