"""Descriptions of groups of Kafka Streams (KIP-1071), for those who describe groups of any type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pylogbroker.client.admin.group_descriptions import GroupDescription, MemberDescription
from pylogbroker.client.admin.routing import NodeRoute, Router, outcome
from pylogbroker.errors import KafkaError, PylogbrokerError
from pylogbroker.wire.messages.streams_group_describe import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedTopology,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    partitions_of,
)
from pylogbroker.wire.streams_topology import StreamsTaskIds

_STREAMS: Final = "streams"


async def describe(
    router: Router, route: NodeRoute[str], names: list[str]
) -> dict[str, GroupDescription | PylogbrokerError]:
    """Return groups by name, with the errors of those that cannot be described."""

    def read(response: StreamsGroupDescribeResponse) -> Iterator[tuple[str, GroupDescription | KafkaError]]:
        for group in response.groups:
            name = group.group_id
            yield name, outcome(f"group {name}", group.error_code, group.error_message, _description(group))

    return await router.ask_each(route, names, lambda some: StreamsGroupDescribeRequest(some), read)


def _description(group: DescribedStreamsGroup) -> GroupDescription:
    topology = group.topology
    return GroupDescription(
        group.group_id,
        group.group_state,
        _STREAMS,
        _STREAMS,
        group.assignor_name or "",
        tuple(_member(member, topology) for member in group.members),
        group.group_epoch,
        group.assignment_epoch,
    )


def _member(member: DescribedStreamsMember, topology: DescribedTopology | None) -> MemberDescription:
    active, target = member.assignment.active_tasks, member.target_assignment.active_tasks
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        tuple(sorted(partitions_of(topology, active))),
        member.member_epoch,
        tuple(sorted(partitions_of(topology, target))),
        is_classic=member.is_classic,
        process=member.process_id,
        tasks=_tasks(active),
        standby_tasks=_tasks([*member.assignment.standby_tasks, *member.assignment.warmup_tasks]),
    )


def _tasks(tasks: Sequence[StreamsTaskIds]) -> tuple[str, ...]:
    """Return tasks as Kafka Streams writes them."""
    return tuple(f"{task.subtopology_id}_{number}" for task in tasks for number in sorted(task.partitions))
