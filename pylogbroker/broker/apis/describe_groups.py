"""DescribeGroups (15): return states and members of groups.

A missing group is Dead, as is one of KIP-848. That is an error from version 6 on.
"""

from __future__ import annotations

from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import ResponseBudget
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import on_each
from pylogbroker.broker.security.visibility import group_operations
from pylogbroker.broker.services import HasFeatures, HasGroups
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import GroupDescription, GroupState, GroupType, MemberDescription
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from pylogbroker.wire.schema import NOT_ASKED

_FIRST_WITH_NOT_FOUND = 6
_DEAD = GroupState.DEAD.value


def _may_describe(access: Access, group_id: str) -> bool:
    return access.allows_on_group(AclOperation.DESCRIBE, group_id)


def _rejected(group_id: str) -> DescribedGroup:
    return DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id)


class _Services(HasGroups, HasFeatures, Protocol):
    """Services that this API uses."""


@serves(DescribeGroupsRequest, access=[on_each("groups", "groups", _may_describe, _rejected)])
async def handle(
    services: _Services, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    space, response = ResponseBudget(), DescribeGroupsResponse()
    async for group_id in over(dict.fromkeys(request.groups)):
        group = _fitting(services.groups.describe(group_id), space)
        if group.state == _DEAD and context.api_version >= _FIRST_WITH_NOT_FOUND:
            response.groups.append(_not_found(group))
            continue
        members = [_member(member) async for member in over(group.members)]
        asks = request.include_authorized_operations and not group.error
        operations = group_operations(services.features, context, group_id) if asks else NOT_ASKED
        response.groups.append(_group(group, members, operations))
    return response


def _fitting(group: GroupDescription, space: ResponseBudget) -> GroupDescription:
    try:
        space.take(sum(_size(member) for member in group.members))
    except KafkaError as error:
        return GroupDescription(error.code, group.group_id)
    return group


def _not_found(group: GroupDescription) -> DescribedGroup:
    is_classic = group.type is GroupType.CLASSIC
    message = f"Group {group.group_id} not found." if is_classic else f"Group {group.group_id} is not a classic group."
    return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, group.group_id, _DEAD, error_message=message)


def _size(member: MemberDescription) -> int:
    return 64 + 2 * len(member.member_id) + len(member.metadata) + len(member.assignment)


def _group(group: GroupDescription, members: list[DescribedGroupMember], operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=members,
        authorized_operations=operations,
    )


def _member(member: MemberDescription) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata,
        member.assignment,
    )
