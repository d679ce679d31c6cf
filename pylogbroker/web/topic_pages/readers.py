"""Groups that read a topic, as their coordinators say it.

A group reads a topic if it has committed an offset there, or a member that partitions of it are assigned to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Final

import attrs

from pylogbroker.errors import KafkaError
from pylogbroker.groups import CommittedOffset
from pylogbroker.metadata.image import TopicImage
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.web.described_groups import GroupDescription, describe_groups
from pylogbroker.web.group_views import has_members
from pylogbroker.web.offsets import Key
from pylogbroker.web.responsible_brokers import ask_all, lacks_group_coordinators
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

_DESCRIBED_AT_ONCE: Final = 50
_OFFSETS_AT_ONCE: Final = 5000
_VERSION_OF_SEVERAL: Final = 8


@attrs.frozen
class TopicReader:
    """A group that reads the topic, with its committed offsets there; `members` is None if it is not known."""

    id: str
    state: str
    members: int | None
    committed: Mapping[int, int]


@attrs.frozen
class TopicReaders:
    """Groups that read a topic; some may be missing unless all brokers have answered everything."""

    readers: Sequence[TopicReader]
    is_complete: bool


@attrs.frozen
class _Members:
    """Number of the members of a group, and whether one of them has partitions of the topic."""

    count: int
    has_partitions: bool


async def readers_of(visitor: Visitor, topic: TopicImage) -> TopicReaders:
    """Return the groups that read a topic, of those that the visitor may describe."""
    readers, is_complete = list[TopicReader](), not lacks_group_coordinators(visitor.services)
    over = visitor.services.runtime.slices.over
    for broker_id, answer in (await ask_all(visitor, ListGroupsRequest())).items():
        if answer is None or answer.error_code:
            is_complete = False
        listed = over(() if answer is None else answer.groups)
        states = {group.group_id: group.group_state async for group in listed if visitor.sees_group(group.group_id)}
        with_members = [group_id for group_id, state in states.items() if has_members(state)]
        committed = await _committed(visitor, broker_id, [*states], topic)
        members = await _members(visitor, broker_id, with_members, topic.name)
        is_complete &= len(committed) == len(states) and len(members) == len(with_members)
        async for group_id, state in over(states.items()):
            offsets, described = committed.get(group_id, {}), members.get(group_id)
            if offsets or (described is not None and described.has_partitions):
                count = 0 if not has_members(state) else None if described is None else described.count
                readers.append(TopicReader(group_id, state, count, offsets))
    return TopicReaders(readers, is_complete)


async def _committed(
    visitor: Visitor, broker_id: int, ids: Sequence[str], topic: TopicImage
) -> dict[str, dict[int, int]]:
    """Return offsets by group and partition; groups whose offsets are not known are left out."""
    if broker_id == visitor.services.node.id:
        return await _committed_here(visitor, ids, topic)
    offsets: dict[str, dict[int, int]] = {}
    requested = [OffsetFetchRequestTopics(topic.name, [*topic.partitions])]
    step = max(1, _OFFSETS_AT_ONCE // len(topic.partitions))
    with suppress(KafkaError):
        for start in range(0, len(ids), step):
            some = ids[start : start + step]
            groups = [OffsetFetchRequestGroup(group_id, topics=requested) for group_id in some]
            request = OffsetFetchRequest(groups=groups)
            answer = await visitor.send(broker_id, request, _VERSION_OF_SEVERAL)
            by_group = rows_by_key(answer, "groups", broker_id, some, attrgetter("group_id"))
            async for group in visitor.services.runtime.slices.over(by_group.values()):
                rows = [
                    row
                    for described in group.topics
                    for row in described.partitions
                    if described.name == topic.name and row.partition_index in topic.partitions
                ]
                if not group.error_code and not any(row.error_code for row in rows):
                    committed = {row.partition_index: row.committed_offset for row in rows if row.committed_offset >= 0}
                    offsets[group.group_id] = committed
    return offsets


async def _committed_here(visitor: Visitor, ids: Sequence[str], topic: TopicImage) -> dict[str, dict[int, int]]:
    groups, offsets = visitor.services.groups, dict[str, dict[int, int]]()
    keys: list[Key] = [(topic.name, index) for index in topic.partitions]
    async for group_id in visitor.services.runtime.slices.over(ids):
        is_small = groups.count_offsets(group_id) < len(keys)
        fetched = groups.fetch(group_id, None if is_small else keys)
        if not fetched.error:
            offsets[group_id] = {
                index: offset.offset
                for (name, index), offset in fetched.offsets.items()
                if name == topic.name and index in topic.partitions and isinstance(offset, CommittedOffset)
            }
    return offsets


async def _members(visitor: Visitor, broker_id: int, ids: list[str], topic: str) -> dict[str, _Members]:
    """Return members by group; groups whose members are not known are left out."""
    members: dict[str, _Members] = {}
    with suppress(KafkaError):
        for start in range(0, len(ids), _DESCRIBED_AT_ONCE):
            some = ids[start : start + _DESCRIBED_AT_ONCE]
            described = await describe_groups(visitor, broker_id, some)
            async for group in visitor.services.runtime.slices.over(described.values()):
                if not group.error:
                    reads = await _has_partitions(visitor, group, topic)
                    members[group.id] = _Members(len(group.members), reads)
    return members


async def _has_partitions(visitor: Visitor, group: GroupDescription, topic: str) -> bool:
    """Return whether partitions of a topic are assigned to members of a group."""
    async for member in visitor.services.runtime.slices.over(group.members):
        if any(name == topic for name, _ in member.partitions or ()):
            return True
    return False
