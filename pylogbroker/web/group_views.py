"""Consumer groups of all brokers, each shown by its coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Annotated, Final, TypedDict

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import CommittedOffset
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.group_offsets import (
    Committed,
    check,
    committed_of,
    committed_of_each,
    ends_of,
    lag_at,
    lag_of,
    visible,
)
from pylogbroker.web.offsets import Key
from pylogbroker.web.parameters import ROWS_MAX, Count, Search, Start
from pylogbroker.web.responsible_brokers import ask_all, group_coordinator, lacks_group_coordinators
from pylogbroker.web.rows import RowRange, slice_rows
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire import WireError
from pylogbroker.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from pylogbroker.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest
from pylogbroker.wire.messages.list_groups import ListedGroup, ListGroupsRequest

MEMBER_PARTITIONS_MAX: Final = 100
"""Partitions of one member that are shown."""


class GroupRow(TypedDict):
    id: str
    state: str
    protocol_type: str
    coordinator: int
    members: int | None
    offsets: int | None
    lag: int | None


@attrs.frozen
class GroupCounts:
    """Numbers of members and of offsets, and the lag; None if they are not known."""

    members: int | None
    offsets: int | None
    lag: int | None


class GroupList(RowRange):
    search: str
    is_complete: bool
    groups: list[GroupRow]


class TopicPartition(TypedDict):
    topic: str
    partition: int


class MemberRow(TypedDict):
    id: str
    instance: str | None
    client: str
    host: str
    partition_count: int | None
    partitions: list[TopicPartition] | None


class OffsetRow(TopicPartition):
    offset: int
    high_watermark: int | None
    lag: int | None
    committed: int | None
    metadata: str


class LagRow(TypedDict):
    time: int
    lag: int | None


class GroupDetails(RowRange):
    id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    lag: int
    member_count: int
    members: list[MemberRow]
    offsets: list[OffsetRow]
    history: list[LagRow] | None


GroupId = Annotated[str, "id of the group"]


def has_members(state: str) -> bool:
    """Return whether a group in this state has members, which would commit over new offsets."""
    return state not in ("Empty", "Dead")


async def groups(visitor: Visitor, search: Search = "", start: Start = 0, count: Count = ROWS_MAX) -> GroupList:
    """Return groups by id, from the `start`th on, of those whose ids contain `search`."""
    slices = visitor.services.runtime.slices
    answers = await ask_all(visitor, ListGroupsRequest())
    matching: dict[str, tuple[int, ListedGroup]] = {}
    for broker_id, answer in answers.items():
        async for listed in slices.over(() if answer is None else answer.groups):
            if search in listed.group_id:
                matching[listed.group_id] = broker_id, listed
    values, shown = slice_rows(start, count, await slices.in_order(list(matching)))
    return {
        "search": search,
        **values,
        "is_complete": not lacks_group_coordinators(visitor.services)
        and not any(answer is None or answer.error_code for answer in answers.values()),
        "groups": await _group_rows(visitor, [matching[group_id] for group_id in shown]),
    }


async def _group_rows(visitor: Visitor, shown: Sequence[tuple[int, ListedGroup]]) -> list[GroupRow]:
    """Return rows of groups with their coordinators."""
    counts = await counts_of(visitor, [(broker_id, listed.group_id) for broker_id, listed in shown])
    return [
        {
            "id": listed.group_id,
            "state": listed.group_state,
            "protocol_type": listed.protocol_type,
            "coordinator": broker_id,
            "members": counts[listed.group_id].members,
            "offsets": counts[listed.group_id].offsets,
            "lag": counts[listed.group_id].lag,
        }
        for broker_id, listed in shown
    ]


async def counts_of(visitor: Visitor, groups: Sequence[tuple[int, str]]) -> dict[str, GroupCounts]:
    """Return what the coordinators of groups answer, which are given with the ids."""
    by_broker: dict[int, list[str]] = {}
    for broker_id, group_id in groups:
        by_broker.setdefault(broker_id, []).append(group_id)
    members: dict[str, int] = {}
    committed: dict[str, Committed] = {}
    for broker_id, ids in by_broker.items():
        with suppress(KafkaError):
            answer = await visitor.ask(DescribeGroupsRequest(ids), broker_id)
            described = rows_by_key(answer, "groups", broker_id, ids, attrgetter("group_id"))
            members |= {group_id: len(group.members) for group_id, group in described.items() if not group.error_code}
        committed |= await committed_of_each(visitor, broker_id, ids)
    ends = await ends_of(visitor, (key for offsets in committed.values() for key in offsets))
    return {
        group_id: GroupCounts(
            members.get(group_id),
            len(committed[group_id]) if group_id in committed else None,
            await lag_of(visitor, committed[group_id], ends) if group_id in committed else None,
        )
        async for _, group_id in visitor.services.runtime.slices.over(groups)
    }


async def group(visitor: Visitor, id: GroupId, start: Start = 0, count: Count = ROWS_MAX) -> GroupDetails:
    """Return a group: members, and committed offsets from the `start`th on, with lag."""
    services, group_id = visitor.services, id
    slices, (description, committed) = services.runtime.slices, await read_group(visitor, group_id)
    ends = await ends_of(visitor, committed)
    keys = await slices.in_order(list(committed))
    lag, rows = 0, list[OffsetRow]()
    async for number, key in slices.over(enumerate(keys)):
        row = _offset_row(key, committed[key], ends.get(key))
        lag += row["lag"] or 0
        if start <= number < start + count:
            rows.append(row)
    return {
        "id": group_id,
        "state": description.group_state,
        "protocol_type": description.protocol_type,
        "assignor": description.protocol_data,
        "coordinator": group_coordinator(services, group_id),
        "lag": lag,
        "start": start,
        "count": count,
        "total": len(committed),
        "member_count": len(description.members),
        "members": [
            _member_row(visitor, description, member) async for member in slices.over(description.members[:ROWS_MAX])
        ],
        "offsets": rows,
        "history": await _history(visitor, group_id, committed),
    }


async def read_group(visitor: Visitor, group_id: str) -> tuple[DescribedGroup, Committed]:
    """Return a group and those of its offsets that the visitor may see; raise KafkaError."""
    visitor.check(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
    coordinator = group_coordinator(visitor.services, group_id)
    request = DescribeGroupsRequest([group_id])
    description: DescribedGroup = await visitor.ask_one(request, "groups", coordinator, group_id=group_id)
    if description.error_code != ErrorCode.GROUP_ID_NOT_FOUND:  # it may have offsets
        check(group_id, description.error_code)
    offsets = await committed_of(visitor, coordinator, group_id)
    if description.group_state == "Dead" and not offsets:
        raise KafkaError(f"there is no group {group_id!r}", ErrorCode.GROUP_ID_NOT_FOUND)
    return description, await visible(visitor, offsets)


async def _history(visitor: Visitor, group_id: str, committed: Committed) -> list[LagRow] | None:
    """Return samples of the lag; None if another broker has them, or they count topics that the visitor may not see."""
    services = visitor.services
    is_here = group_coordinator(services, group_id) == services.node.id
    if not is_here or services.groups.count_offsets(group_id) != len(committed):
        return None
    return [{"time": sample.time_ms, "lag": sample.lag} for sample in visitor.samples.group_lags.of(group_id)]


def _member_row(visitor: Visitor, group: DescribedGroup, member: DescribedGroupMember) -> MemberRow:
    """Return a member; its partitions are null if they are not known, as those of groups of Kafka Connect."""
    assigned: list[Key] | None = None
    if group.protocol_type == PROTOCOL_TYPE:
        with suppress(WireError):
            assigned = [key for key in decode_assignment(member.member_assignment) if visitor.sees_topic(key[0])]
    return {
        "id": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "partition_count": None if assigned is None else len(assigned),
        "partitions": None
        if assigned is None
        else [{"topic": topic, "partition": index} for topic, index in sorted(assigned)[:MEMBER_PARTITIONS_MAX]],
    }


def _offset_row(key: Key, committed: CommittedOffset, end: int | None) -> OffsetRow:
    return {
        "topic": key[0],
        "partition": key[1],
        "offset": committed.offset,
        "high_watermark": end,
        "lag": lag_at(committed, end),
        "committed": committed.committed if committed.committed >= 0 else None,
        "metadata": committed.metadata,
    }
