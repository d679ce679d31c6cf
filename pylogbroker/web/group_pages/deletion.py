"""Deletion of a group, or of its offsets of one topic: what is lost, and the change by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import code_of
from pylogbroker.web.changes import after_others
from pylogbroker.web.group_pages.partitions import ShownMember, members_of
from pylogbroker.web.group_pages.reset import NAMED_MEMBERS_MAX
from pylogbroker.web.group_views import GroupId, has_members, read_group
from pylogbroker.web.parameters import Name
from pylogbroker.web.responsible_brokers import group_coordinator
from pylogbroker.web.router import BadRequest
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest
from pylogbroker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
)

_DELETED_MAX = 2000
"""Offsets of one request: to encode it must not take long."""


class GroupToDelete(TypedDict):
    """`topics` are those with offsets, and how many."""

    id: str
    state: str
    may_delete: bool
    offsets: int
    topics: list[tuple[str, int]]
    members: Sequence[ShownMember]
    member_count: int


class OffsetsToDelete(GroupToDelete):
    topic: str
    partitions: int


class DeletedGroup(TypedDict):
    id: str


async def group_to_delete(visitor: Visitor, id: GroupId) -> GroupToDelete:
    """Return what is lost with a group."""
    description, committed = await read_group(visitor, id)
    counts: dict[str, int] = {}
    async for topic, _ in visitor.services.runtime.slices.over(committed):
        counts[topic] = counts.get(topic, 0) + 1
    members = await members_of(visitor, description)
    return {
        "id": id,
        "state": description.state,
        "may_delete": not has_members(description.state),
        "offsets": len(committed),
        "topics": sorted(counts.items()),
        "members": members[:NAMED_MEMBERS_MAX],
        "member_count": len(members),
    }


async def offsets_to_delete(visitor: Visitor, id: GroupId, topic: Name = "") -> OffsetsToDelete:
    """Return the topics of a group, and how many offsets it has of one."""
    group = await group_to_delete(visitor, id)
    partitions = dict(group["topics"]).get(topic, 0)
    if topic and not partitions:
        raise KafkaError(f"the group {id} has no offset of the topic {topic}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return {**group, "topic": topic, "partitions": partitions}


async def delete_group_confirmed(visitor: Visitor, id: GroupId, confirm: Name) -> DeletedGroup:
    """Delete a group without members, whose id is given twice."""
    if confirm != id:
        raise BadRequest(f"write {id}, the id of the group", "confirm")
    coordinator = group_coordinator(visitor.services, id)
    result = await visitor.ask_one(DeleteGroupsRequest([id]), "results", coordinator, group_id=id)
    _check(f"the group {id} was not deleted", result.error_code)
    return {"id": id}


async def delete_offsets_confirmed(
    visitor: Visitor, id: GroupId, topic: Name, confirm: Annotated[Name, "the topic again"]
) -> DeletedGroup:
    """Delete the offsets that a group has of a topic, which is given twice."""
    if confirm != topic:
        raise BadRequest(f"write {topic}, the name of the topic", "confirm")
    _, committed = await read_group(visitor, id)
    over = visitor.services.runtime.slices.over
    indexes = [index async for name, index in over(committed) if name == topic]
    if not indexes:
        raise KafkaError(f"the group {id} has no offset of the topic {topic}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    coordinator = group_coordinator(visitor.services, id)
    failed = f"the offsets of {topic} were not deleted"
    for start in range(0, len(indexes), _DELETED_MAX):
        deleted = indexes[start : start + _DELETED_MAX]
        partitions = [OffsetDeleteRequestPartition(index) for index in deleted]
        request = OffsetDeleteRequest(id, [OffsetDeleteRequestTopic(topic, partitions)])
        with after_others(start):
            answer = await visitor.ask(request, coordinator)
            _check(failed, answer.error_code)
            rows = rows_by_key(answer, "topics.partitions", coordinator, deleted, _partition_index)
        codes = [row.error_code for row in rows.values()]
        with after_others(start + codes.count(ErrorCode.NONE)):
            _check(failed, next(filter(None, codes), 0))
    return {"id": id}


def _partition_index(_: object, row: OffsetDeleteResponsePartition) -> int:
    return row.partition_index


def _check(failed: str, number: int) -> None:
    if not number:
        return
    code = code_of(number)
    remedy = {
        ErrorCode.NON_EMPTY_GROUP: "it has members: stop them first",
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group read the topic: stop them first",
    }.get(code, code.meaning)
    raise KafkaError(f"{failed}: {remedy}", code)
