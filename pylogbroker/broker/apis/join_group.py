"""JoinGroup (11): join a group or its rebalance. Before version 7 a missing protocol is "", not null."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_group
from pylogbroker.broker.services import HasGroups, HasRuntime
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Join, JoinResult
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

_FIRST_WITH_REBALANCE_TIMEOUT = 1
_FIRST_WITH_KNOWN_IDS = 4
_FIRST_WITH_NULL_PROTOCOL = 7
_FIRST_WITH_SKIPPING = 9


class _Services(HasRuntime, HasGroups, Protocol):
    """Services that this API uses."""


def _reject(context: RequestContext, request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    return _response(JoinResult(code), context.api_version)


@serves(JoinGroupRequest, access=[on_group(AclOperation.READ, _reject)])
def handle(services: _Services, context: RequestContext, request: JoinGroupRequest) -> Deferred[JoinGroupResponse]:
    replied: Deferred[JoinResult] = Deferred()
    services.groups.join(_join(context, request), replied.callback, services.runtime.now_ms())
    return replied.addCallback(_response, context.api_version)


def _join(context: RequestContext, request: JoinGroupRequest) -> Join:
    version = context.api_version
    has_rebalance_timeout = version >= _FIRST_WITH_REBALANCE_TIMEOUT
    return Join(
        group_id=request.group_id,
        member_id=request.member_id,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        instance_id=request.group_instance_id,
        needs_known_id=version >= _FIRST_WITH_KNOWN_IDS,
        can_skip_assignment=version >= _FIRST_WITH_SKIPPING,
    )


def _response(result: JoinResult, version: int) -> JoinGroupResponse:
    no_protocol = None if version >= _FIRST_WITH_NULL_PROTOCOL else ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=no_protocol if result.protocol_name is None else result.protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata) for member in result.members
        ],
    )
