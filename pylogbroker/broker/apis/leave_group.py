"""LeaveGroup (13): remove members from a group. Before version 3 the one member's error is the response's."""

from __future__ import annotations

from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_group
from pylogbroker.broker.services import HasGroups, HasRuntime
from pylogbroker.groups import Leaving
from pylogbroker.long_loops import give_way
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

_FIRST_WITH_SEVERAL = 3
_MEMBERS_PER_STEP = 500


class _Services(HasRuntime, HasGroups, Protocol):
    """Services that this API uses."""


@serves(LeaveGroupRequest, access=[on_group(AclOperation.READ)])
async def handle(services: _Services, context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    if context.api_version < _FIRST_WITH_SEVERAL:
        left = services.groups.leave(request.group_id, [Leaving(request.member_id)], services.runtime.now_ms())
        return LeaveGroupResponse(error_code=left.error or left.members[0])
    response = LeaveGroupResponse()
    for start in range(0, max(len(request.members), 1), _MEMBERS_PER_STEP):
        some = request.members[start : start + _MEMBERS_PER_STEP]
        leaving = [Leaving(member.member_id, member.group_instance_id) for member in some]
        left = services.groups.leave(request.group_id, leaving, services.runtime.now_ms())
        if left.error:
            return LeaveGroupResponse(error_code=left.error)
        response.members += [
            MemberResponse(member.member_id, member.group_instance_id, error)
            for member, error in zip(some, left.members, strict=True)
        ]
        await give_way()
    return response
