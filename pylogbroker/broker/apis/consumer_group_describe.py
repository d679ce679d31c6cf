"""ConsumerGroupDescribe (69): return states, epochs, members and assignments of consumer groups."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.group_descriptions import DescribingServices, GroupDescriptions
from pylogbroker.broker.security.visibility import may_see_topic
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.partitions import TopicIdPartition, by_topic
from pylogbroker.groups.consumer.requests import ConsumerGroupDescription, ConsumerMemberDescription
from pylogbroker.long_loops import over
from pylogbroker.wire.messages.consumer_group_describe import (
    AssignedTopicPartitions,
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupMember,
    DescribedConsumerGroup,
)
from pylogbroker.wire.schema import NOT_ASKED

_DESCRIPTIONS: Final = GroupDescriptions(ConsumerGroupDescribeResponse, DescribedConsumerGroup)


@serves(ConsumerGroupDescribeRequest, access=[_DESCRIPTIONS.access()], answer_off=_DESCRIPTIONS.answer_off)
async def handle(
    services: DescribingServices, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    find, describe = services.groups.consumers.describe, partial(_described, services, context)
    return await _DESCRIPTIONS.answer(services, context, request, find, _size, describe)


async def _described(
    services: DescribingServices, context: RequestContext, group: ConsumerGroupDescription
) -> DescribedConsumerGroup:
    """Return a description without topics that are gone; an error if the client may not see all of the topics."""
    names: dict[object, str | None] = {}
    members = []
    async for member in over(group.members):
        partitions = (*member.assignment, *member.target)
        for topic_id in by_topic(partitions):
            if topic_id not in names:
                names[topic_id] = services.groups.consumers.topic_name(topic_id)
        topics = {*member.topics, *(name for name in map(names.get, by_topic(partitions)) if name is not None)}
        if not all(may_see_topic(context, name) for name in topics):
            return _DESCRIPTIONS.error(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        members.append(_member(member, names))
    return DescribedConsumerGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=members,
        authorized_operations=NOT_ASKED,
    )


def _member(member: ConsumerMemberDescription, names: dict[object, str | None]) -> ConsumerGroupMember:
    def assignment(partitions: Collection[TopicIdPartition]) -> Assignment:
        topics = ((topic_id, names[topic_id], numbers) for topic_id, numbers in by_topic(partitions).items())
        return Assignment([AssignedTopicPartitions(key, name, some) for key, name, some in topics if name is not None])

    return ConsumerGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.expression,
        assignment=assignment(member.assignment),
        target_assignment=assignment(member.target),
        member_type=0 if member.is_classic else 1,
    )


def _size(group: ConsumerGroupDescription) -> int:
    """Return about how many bytes a description has."""
    return sum(map(_size_of_member, group.members))


def _size_of_member(member: ConsumerMemberDescription) -> int:
    partitions = 24 * (len(member.assignment) + len(member.target))
    return 128 + 2 * len(member.member_id) + sum(map(len, member.topics)) + partitions
