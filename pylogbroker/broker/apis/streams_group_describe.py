"""StreamsGroupDescribe (89): return states, topologies, members and assignments of groups of Kafka Streams."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.group_descriptions import DescribingServices, GroupDescriptions
from pylogbroker.broker.security.visibility import may_see_topic
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.streams.configuration import GroupTopology
from pylogbroker.groups.streams.record_forms import task_ids
from pylogbroker.groups.streams.requests import StreamsGroupDescription, StreamsMemberDescription
from pylogbroker.groups.streams.tasks import Task, Tasks
from pylogbroker.long_loops import over
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

_NOT_STORED: Final = 1
_FIRST_WITH_DESCRIPTIONS: Final = 1
_DESCRIPTIONS: Final = GroupDescriptions(StreamsGroupDescribeResponse, DescribedStreamsGroup)


@serves(StreamsGroupDescribeRequest, access=[_DESCRIPTIONS.access()], answer_off=_DESCRIPTIONS.answer_off)
async def handle(
    services: DescribingServices, context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    find, describe = services.groups.streams.describe, partial(_described, context, request)
    return await _DESCRIPTIONS.answer(services, context, request, find, _size, describe)


async def _described(
    context: RequestContext, request: StreamsGroupDescribeRequest, group: StreamsGroupDescription
) -> DescribedStreamsGroup:
    """Return a description; an error if the client may not see all topics of the topology."""
    topology = group.topology
    if topology is not None and not all(may_see_topic(context, name) for name in topology.topics()):
        text = "The group has described topic(s) that the client is not authorized to describe."
        return _DESCRIPTIONS.error(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
    has_descriptions = context.api_version >= _FIRST_WITH_DESCRIPTIONS
    return DescribedStreamsGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=None if topology is None else _topology(topology, group),
        members=[_member(member) async for member in over(group.members)],
        authorized_operations=NOT_ASKED,
        assignor_name=group.assignor if has_descriptions else None,
        topology_description_status=_NOT_STORED if has_descriptions and request.include_topology_description else 0,
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
