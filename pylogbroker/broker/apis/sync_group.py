"""SyncGroup (14): send the leader's assignment, get the member's."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_group
from pylogbroker.broker.services import HasGroups, HasRuntime
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Sync, SyncResult
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_FIRST_WITH_PROTOCOL = 5


class _Services(HasRuntime, HasGroups, Protocol):
    """Services that this API uses."""


@serves(SyncGroupRequest, access=[on_group(AclOperation.READ)])
def handle(
    services: _Services, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Deferred[SyncGroupResponse]:
    if context.api_version >= _FIRST_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    replied: Deferred[SyncResult] = Deferred()
    services.groups.sync(_sync(request), replied.callback, services.runtime.now_ms())
    return replied.addCallback(_response)


def _sync(request: SyncGroupRequest) -> Sync:
    return Sync(
        group_id=request.group_id,
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={assignment.member_id: assignment.assignment for assignment in request.assignments},
    )


def _response(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
