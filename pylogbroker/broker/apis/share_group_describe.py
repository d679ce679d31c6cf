"""ShareGroupDescribe (77): return states, epochs, members and assignments of share groups."""

from __future__ import annotations

from functools import partial
from typing import Final

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.group_descriptions import DescribingServices, GroupDescriptions
from pylogbroker.broker.security.visibility import may_see_topic
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.partitions import by_topic
from pylogbroker.groups.share.requests import ShareGroupDescription, ShareMemberDescription
from pylogbroker.long_loops import over
from pylogbroker.wire.messages.share_group_describe import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupMember,
    ShareMemberAssignment,
    ShareMemberTopicPartitions,
)
from pylogbroker.wire.schema import NOT_ASKED

_DESCRIPTIONS: Final = GroupDescriptions(ShareGroupDescribeResponse, DescribedShareGroup)


@serves(ShareGroupDescribeRequest, access=[_DESCRIPTIONS.access()], answer_off=_DESCRIPTIONS.answer_off)
async def handle(
    services: DescribingServices, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    find, describe = services.groups.shares.describe, partial(_described, services, context)
    return await _DESCRIPTIONS.answer(services, context, request, find, _size, describe)


async def _described(
    services: DescribingServices, context: RequestContext, group: ShareGroupDescription
) -> DescribedShareGroup:
    """Return a description without topics that are gone; an error if the client may not see all of the topics."""
    members = []
    async for member in over(group.members):
        topics = [
            ShareMemberTopicPartitions(topic_id, name, numbers)
            for topic_id, numbers in by_topic(member.assignment).items()
            if (name := services.groups.shares.topic_name(topic_id)) is not None
        ]
        if not all(may_see_topic(context, name) for name in {*member.topics, *(topic.topic_name for topic in topics)}):
            return _DESCRIPTIONS.error(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        members.append(_member(member, topics))
    return DescribedShareGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=members,
        authorized_operations=NOT_ASKED,
    )


def _member(member: ShareMemberDescription, topics: list[ShareMemberTopicPartitions]) -> ShareGroupMember:
    return ShareGroupMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=ShareMemberAssignment(topics),
    )


def _size(group: ShareGroupDescription) -> int:
    """Return about how many bytes a description has."""
    return sum(map(_size_of_member, group.members))


def _size_of_member(member: ShareMemberDescription) -> int:
    return 128 + 2 * len(member.member_id) + sum(map(len, member.topics)) + 24 * len(member.assignment)
