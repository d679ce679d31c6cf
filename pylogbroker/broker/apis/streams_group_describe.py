"""StreamsGroupDescribe (89): return states, topologies, members and assignments of groups of Kafka Streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import ResponseBudget
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import on_each
from pylogbroker.broker.security.visibility import group_operations, may_see_topic
from pylogbroker.broker.services import HasFeatures, HasGroups
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.streams.configuration import GroupTopology
from pylogbroker.groups.streams.record_forms import task_ids
from pylogbroker.groups.streams.requests import StreamsGroupDescription, StreamsMemberDescription
from pylogbroker.groups.streams.tasks import Task, Tasks
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.streams_group_describe import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedSubtopology,
    DescribedTopology,
    StreamsAssignment,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from pylogbroker.wire.schema import NOT_ASKED
from pylogbroker.wire.streams_topology import (
    StreamsEndpoint,
    StreamsKeyValue,
    StreamsSubtopology,
    StreamsTaskOffset,
    StreamsTopicInfo,
)

_NOT_REQUESTED: Final = 0
_NOT_STORED: Final = 1
_FIRST_WITH_DESCRIPTIONS: Final = 1


class _Services(HasGroups, HasFeatures, Protocol):
    """Services that this API uses."""


def _may_describe(access: Access, group_id: str) -> bool:
    return access.allows_on_group(AclOperation.DESCRIBE, group_id)


def _rejected(group_id: str) -> DescribedStreamsGroup:
    return _error(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _answer_off(request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
    groups = [_error(group_id, ErrorCode.UNSUPPORTED_VERSION) for group_id in dict.fromkeys(request.group_ids)]
    return StreamsGroupDescribeResponse(groups=groups)


@serves(
    StreamsGroupDescribeRequest,
    access=[on_each("group_ids", "groups", _may_describe, _rejected)],
    answer_off=_answer_off,
)
async def handle(
    services: _Services, context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    space, response = ResponseBudget(), StreamsGroupDescribeResponse()
    async for group_id in over(dict.fromkeys(request.group_ids)):
        group = services.groups.streams.describe(group_id)
        try:
            space.take(_size(group))
        except KafkaError as error:
            response.groups.append(_error(group_id, error.code))
            continue
        described = await _described(context, group)
        if not described.error_code:
            if request.include_authorized_operations:
                described.authorized_operations = group_operations(services.features, context, group_id)
            if context.api_version >= _FIRST_WITH_DESCRIPTIONS:
                asked_for = request.include_topology_description
                described.topology_description_status = _NOT_STORED if asked_for else _NOT_REQUESTED
        response.groups.append(described)
    return response


async def _described(context: RequestContext, group: StreamsGroupDescription) -> DescribedStreamsGroup:
    """Return a description; an error if the client may not see all topics of the topology."""
    if group.error:
        return _error(group.group_id, group.error, group.text)
    topology = group.topology
    if topology is not None and not all(may_see_topic(context, name) for name in topology.topics()):
        text = "The group has described topic(s) that the client is not authorized to describe."
        return _error(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
    return DescribedStreamsGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=None if topology is None else _topology(topology, group),
        members=[_member(member) async for member in over(group.members)],
        authorized_operations=NOT_ASKED,
        assignor_name=group.assignor if context.api_version >= _FIRST_WITH_DESCRIPTIONS else None,
    )


def _topology(topology: GroupTopology, group: StreamsGroupDescription) -> DescribedTopology:
    counts = {} if group.configured is None else group.configured.counts
    return DescribedTopology(
        topology.epoch, [_subtopology(subtopology, counts) for subtopology in topology.subtopologies]
    )


def _subtopology(subtopology: StreamsSubtopology, counts: Mapping[str, int]) -> DescribedSubtopology:
    def decided(info: StreamsTopicInfo) -> StreamsTopicInfo:
        partitions = counts.get(info.name, info.partitions)
        return StreamsTopicInfo(info.name, partitions, info.replication_factor, info.topic_configs)

    return DescribedSubtopology(
        subtopology.subtopology_id,
        subtopology.source_topics,
        subtopology.repartition_sink_topics,
        [decided(info) for info in subtopology.state_changelog_topics],
        [decided(info) for info in subtopology.repartition_source_topics],
    )


def _member(member: StreamsMemberDescription) -> DescribedStreamsMember:
    return DescribedStreamsMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else StreamsEndpoint(*member.endpoint),
        client_tags=[StreamsKeyValue(*tag) for tag in member.client_tags.items()],
        task_offsets=_offsets(member.offsets),
        task_end_offsets=_offsets(member.end_offsets),
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target),
    )


def _assignment(tasks: Tasks) -> StreamsAssignment:
    return StreamsAssignment(task_ids(tasks.active), task_ids(tasks.standby), task_ids(tasks.warmup))


def _offsets(offsets: Mapping[Task, int]) -> list[StreamsTaskOffset]:
    return [StreamsTaskOffset(*task, offset) for task, offset in sorted(offsets.items())]


def _size(group: StreamsGroupDescription) -> int:
    """Return about how many bytes a description has."""
    topology = group.topology
    size = 0 if topology is None else sum(40 + len(name) for name in topology.topics())
    for member in group.members:
        tags = sum(len(key) + len(value) for key, value in member.client_tags.items())
        tasks = 8 * (len(member.assignment) + len(member.target)) + 16 * (len(member.offsets) + len(member.end_offsets))
        size += 200 + len(member.member_id) + len(member.process_id) + tags + tasks
    return size


def _error(group_id: str, code: ErrorCode, text: str | None = None) -> DescribedStreamsGroup:
    return DescribedStreamsGroup(error_code=code, error_message=text or code.meaning, group_id=group_id)
