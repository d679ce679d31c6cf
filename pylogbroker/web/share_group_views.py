"""A share group as JSON."""

from __future__ import annotations

from typing import TypedDict

from pylogbroker.web.group_views import MEMBER_PARTITIONS_MAX, GroupId, TopicPartition
from pylogbroker.web.parameters import ROWS_MAX, Count, Start
from pylogbroker.web.rows import RowRange, slice_rows
from pylogbroker.web.share_groups import ShownShareMember, read_share_group, sum_of_known
from pylogbroker.web.visitors import Visitor


class ShareMemberView(TypedDict):
    id: str
    client: str
    host: str
    epoch: int
    topics: list[str]
    partition_count: int
    partitions: list[TopicPartition]


class SharePartitionView(TopicPartition):
    start_offset: int | None
    lag: int | None
    in_flight: int | None
    error: str


class ShareGroupView(RowRange):
    """`dead_letter_topic` is empty if records that are rejected or delivered too often are dropped."""

    id: str
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    coordinator: int
    lag: int | None
    in_flight: int | None
    dead_letter_topic: str
    member_count: int
    members: list[ShareMemberView]
    partitions: list[SharePartitionView]


async def share_group(visitor: Visitor, id: GroupId, start: Start = 0, count: Count = ROWS_MAX) -> ShareGroupView:
    """Return a share group: members, and partitions from the `start`th on."""
    group = await read_share_group(visitor, id)
    topic = visitor.services.share_groups.settings_of(id).dead_letter_topic
    values, shown = slice_rows(start, count, group.partitions)
    return {
        "id": id,
        "state": group.state,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "lag": group.lag,
        "in_flight": sum_of_known([row.in_flight for row in group.partitions]),
        "dead_letter_topic": topic if topic and visitor.sees_topic(topic) else "",
        "member_count": len(group.members),
        "members": [_member(member) for member in group.members[:ROWS_MAX]],
        **values,
        "partitions": [
            {
                "topic": row.topic,
                "partition": row.index,
                "start_offset": row.start,
                "lag": row.lag,
                "in_flight": row.in_flight,
                "error": row.error,
            }
            for row in shown
        ],
    }


def _member(member: ShownShareMember) -> ShareMemberView:
    shown = member.partitions[:MEMBER_PARTITIONS_MAX]
    return {
        "id": member.id,
        "client": member.client,
        "host": member.host,
        "epoch": member.epoch,
        "topics": [*member.topics[:MEMBER_PARTITIONS_MAX]],
        "partition_count": len(member.partitions),
        "partitions": [{"topic": topic, "partition": index} for topic, index in shown],
    }
