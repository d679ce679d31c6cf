"""LeaveGroup (13): remove members from a group. Before version 3 the one member's error is the response's."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.groups import Leaving
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

_FIRST_WITH_SEVERAL = 3


@serves(LeaveGroupRequest)
def handle(services: Services, context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    if context.api_version < _FIRST_WITH_SEVERAL:
        left = services.groups.leave(request.group_id, [Leaving(request.member_id)], services.runtime.now_ms())
        return LeaveGroupResponse(error_code=left.error or left.members[0])
    leaving = [Leaving(member.member_id, member.group_instance_id) for member in request.members]
    left = services.groups.leave(request.group_id, leaving, services.runtime.now_ms())
    return LeaveGroupResponse(
        error_code=left.error,
        members=[
            MemberResponse(member.member_id, member.group_instance_id, error)
            for member, error in zip(request.members, left.members, strict=False)
        ],
    )
