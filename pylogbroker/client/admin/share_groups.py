"""Share groups (KIP-932): describe; where they start in their partitions: read, set, delete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import NodeRoute, Router, deferred, outcome, outcomes_of, results
from pylogbroker.client.coordinator_requests import CoordinatorType
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire import Request
from pylogbroker.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from pylogbroker.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from pylogbroker.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from pylogbroker.wire.messages.share_group_describe import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupMember,
)

_COORDINATOR: Final = "the coordinator"


@attrs.frozen
class ShareMemberSummary:
    """Member of a share group. Several members may have the same partition."""

    member_id: str
    client_id: str
    host: str
    epoch: int
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@attrs.frozen
class ShareGroupSummary:
    group: str
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: tuple[ShareMemberSummary, ...]


@attrs.frozen
class ShareGroupOffset:
    """`start`: all records before it are acknowledged, or will never be delivered; -1 if nothing was read yet.

    `lag` is the number of records from there on that are to be delivered, None if it is not known.
    """

    start: int
    lag: int | None


@attrs.frozen(eq=False, repr=False)
class ShareGroupAdmin:
    _router: Router

    @deferred
    async def describe(self, groups: Iterable[str]) -> dict[str, ShareGroupSummary]:
        """Return share groups by name; an error for a group that is none."""

        def read(response: ShareGroupDescribeResponse) -> Iterator[tuple[str, ShareGroupSummary | KafkaError]]:
            for group in response.groups:
                subject = f"share group {group.group_id}"
                yield group.group_id, outcome(subject, group.error_code, group.error_message, _description(group))

        names = arguments.texts("groups", groups)
        return await self._router.ask(self._route(), names, lambda names: ShareGroupDescribeRequest(names), read)

    @deferred
    async def offsets(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, ShareGroupOffset]]:
        """Return by group where it starts in each of its partitions."""

        def read(
            response: DescribeShareGroupOffsetsResponse,
        ) -> Iterator[tuple[str, dict[TopicPartition, ShareGroupOffset] | KafkaError]]:
            for group in response.groups:
                subject = f"share group {group.group_id}"
                error = outcome(subject, group.error_code, group.error_message, None)
                yield group.group_id, error or _offsets(group)

        def make(names: list[str]) -> Request:
            return DescribeShareGroupOffsetsRequest(
                [DescribeShareGroupOffsetsRequestGroup(name, topics=None) for name in names]
            )

        return await self._router.ask(self._route(), arguments.texts("groups", groups), make, read)

    @deferred
    async def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set where a group without members starts; what it knows of single records is forgotten."""
        topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
        for (topic, partition), offset in arguments.offsets("offsets", offsets).items():
            row = AlterShareGroupOffsetsRequestPartition(partition, offset)
            topics.setdefault(topic, AlterShareGroupOffsetsRequestTopic(topic)).partitions.append(row)
        if not topics:
            return
        response: AlterShareGroupOffsetsResponse = await self._ask(
            group, lambda: AlterShareGroupOffsetsRequest(group, [*topics.values()])
        )
        read = (
            (
                (topic.topic_name, row.partition_index),
                outcome(f"{topic.topic_name}/{row.partition_index}", row.error_code, row.error_message, None),
            )
            for topic in response.responses
            for row in topic.partitions
        )
        results([*offsets], outcomes_of(response, _COORDINATOR, [*offsets], read))

    @deferred
    async def delete_offsets(self, group: str, topics: Iterable[str]) -> None:
        """Forget what a group without members knows of topics: it starts there as if it were new."""
        names = arguments.texts("topics", topics)
        if not names:
            return
        rows = [DeleteShareGroupOffsetsRequestTopic(name) for name in names]
        response: DeleteShareGroupOffsetsResponse = await self._ask(
            group, lambda: DeleteShareGroupOffsetsRequest(group, rows)
        )
        read = (
            (topic.topic_name, outcome(f"topic {topic.topic_name}", topic.error_code, topic.error_message, None))
            for topic in response.responses
        )
        results([*names], outcomes_of(response, _COORDINATOR, [*names], read))

    def _route(self) -> NodeRoute[str]:
        return self._router.coordinators(CoordinatorType.GROUP)

    async def _ask(self, group: str, make: Any) -> Any:
        """Return the response of a group's coordinator once its error of the request as such is 0."""

        def read(response: Any) -> Iterator[tuple[str, Any]]:
            yield group, outcome(f"share group {group}", response.error_code, response.error_message, response)

        answers = await self._router.ask(self._route(), [arguments.name("group", group)], lambda _: make(), read)
        return answers[group]


def _description(group: DescribedShareGroup) -> ShareGroupSummary:
    members = tuple(map(_member, group.members))
    return ShareGroupSummary(
        group.group_id, group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name, members
    )


def _member(member: ShareGroupMember) -> ShareMemberSummary:
    topics = member.assignment.topic_partitions
    return ShareMemberSummary(
        member.member_id,
        member.client_id,
        member.client_host,
        member.member_epoch,
        tuple(sorted(member.subscribed_topic_names)),
        tuple(sorted((topic.topic_name, number) for topic in topics for number in topic.partitions)),
    )


def _offsets(group: DescribeShareGroupOffsetsResponseGroup) -> dict[TopicPartition, ShareGroupOffset] | KafkaError:
    """Return the offsets of all partitions, or the error of the first one that has one."""
    offsets = {}
    for topic in group.topics:
        for row in topic.partitions:
            error = outcome(f"{topic.topic_name}/{row.partition_index}", row.error_code, row.error_message, None)
            if error is not None:
                return error
            lag = None if row.lag < 0 else row.lag
            offsets[topic.topic_name, row.partition_index] = ShareGroupOffset(row.start_offset, lag)
    return offsets
