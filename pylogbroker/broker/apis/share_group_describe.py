"""ShareGroupDescribe (77): return states, epochs, members and assignments of share groups."""

from __future__ import annotations

from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import ResponseBudget
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import on_each
from pylogbroker.broker.security.visibility import group_operations, may_see_topic
from pylogbroker.broker.services import HasFeatures, HasGroups
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.consumer.partitions import by_topic
from pylogbroker.groups.share.requests import ShareGroupDescription, ShareMemberDescription
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.share_group_describe import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupMember,
    ShareMemberAssignment,
    ShareMemberTopicPartitions,
)
from pylogbroker.wire.schema import NOT_ASKED


class _Services(HasGroups, HasFeatures, Protocol):
    """Services that this API uses."""


def _may_describe(access: Access, group_id: str) -> bool:
    return access.allows_on_group(AclOperation.DESCRIBE, group_id)


def _rejected(group_id: str) -> DescribedShareGroup:
    return _error(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _answer_off(request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    groups = [_error(group_id, ErrorCode.UNSUPPORTED_VERSION) for group_id in dict.fromkeys(request.group_ids)]
    return ShareGroupDescribeResponse(groups=groups)


@serves(
    ShareGroupDescribeRequest,
    access=[on_each("group_ids", "groups", _may_describe, _rejected)],
    answer_off=_answer_off,
)
async def handle(
    services: _Services, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    space, response = ResponseBudget(), ShareGroupDescribeResponse()
    async for group_id in over(dict.fromkeys(request.group_ids)):
        group = services.groups.shares.describe(group_id)
        try:
            space.take(sum(map(_size, group.members)))
        except KafkaError as error:
            response.groups.append(_error(group_id, error.code))
            continue
        described = await _described(services, context, group)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = group_operations(services.features, context, group_id)
        response.groups.append(described)
    return response


async def _described(services: _Services, context: RequestContext, group: ShareGroupDescription) -> DescribedShareGroup:
    """Return a description without topics that are gone; an error if the client may not see all of the topics."""
    if group.error:
        return _error(group.group_id, group.error, group.text)
    members = []
    async for member in over(group.members):
        topics = [
            ShareMemberTopicPartitions(topic_id, name, numbers)
            for topic_id, numbers in by_topic(member.assignment).items()
            if (name := services.groups.shares.topic_name(topic_id)) is not None
        ]
        if not all(may_see_topic(context, name) for name in {*member.topics, *(topic.topic_name for topic in topics)}):
            return _error(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
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


def _size(member: ShareMemberDescription) -> int:
    return 128 + 2 * len(member.member_id) + sum(map(len, member.topics)) + 24 * len(member.assignment)


def _error(group_id: str, code: ErrorCode, text: str | None = None) -> DescribedShareGroup:
    return DescribedShareGroup(error_code=code, error_message=text or code.meaning, group_id=group_id)
