"""Heartbeat (12): extend the session of a member, which learns of rebalances from the response."""

from __future__ import annotations

from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_group
from pylogbroker.broker.services import HasGroups, HasRuntime
from pylogbroker.groups import Heartbeat
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class _Services(HasRuntime, HasGroups, Protocol):
    """Services that this API uses."""


@serves(HeartbeatRequest, access=[on_group(AclOperation.READ)])
def handle(services: _Services, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    beat = Heartbeat(request.group_id, request.generation_id, request.member_id, request.group_instance_id)
    return HeartbeatResponse(error_code=services.groups.heartbeat(beat, services.runtime.now_ms()))
