"""DescribeGroups (15): groups' states and members.

1  throttle_time_ms         4  static members
3  authorised operations    5  flexible

A group that does not exist is Dead, which is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.answers import AnswerSpace
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.operations import GROUP_OPERATIONS, NOT_ASKED
from pylogbroker.errors import KafkaError
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
    """Describe each group, once."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    space = AnswerSpace()
    described = (broker.groups.describe(group_id) for group_id in dict.fromkeys(request.groups))
    return DescribeGroupsResponse(groups=[_group(_fitting(group, space), operations) for group in described])


def _fitting(group: GroupDescription, space: AnswerSpace) -> GroupDescription:
    """The group, or an error if the answer has no place for it."""
    try:
        space.take(sum(_size(member) for member in group.members))
    except KafkaError as error:
        return GroupDescription(error.code, group.group_id)
    return group


def _size(member: MemberDescription) -> int:
    """About how many bytes a member takes."""
    return 64 + 2 * len(member.member_id) + len(member.metadata) + len(member.assignment)


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
