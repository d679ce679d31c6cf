"""DescribeGroups (15): groups' states and members.

1  throttle_time_ms         4  static members
3  authorised operations    5  flexible

A group that does not exist is Dead, which is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.operations import GROUP_OPERATIONS, NOT_ASKED
from pylogbroker.groups import GroupDescription, MemberDescription
from pylogbroker.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


def handle(broker: Broker, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe each group."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    described = (broker.groups.describe(group_id) for group_id in request.groups)
    return DescribeGroupsResponse(groups=[_group(group, operations) for group in described])


def _group(group: GroupDescription, operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[_member(member) for member in group.members],
        authorized_operations=NOT_ASKED if group.error else operations,
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
