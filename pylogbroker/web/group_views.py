"""Consumer groups of all brokers, each shown by its coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Final, Literal, TypedDict

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import CommittedOffset, GroupState, GroupType
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.described_groups import DescribedMember, GroupDescription, GroupProtocol, describe_groups
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
from pylogbroker.web.share_groups import share_groups_of_each
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_groups import ListedGroup, ListGroupsRequest

MEMBER_PARTITIONS_MAX: Final = 100
"""Partitions of one member that are shown."""
Protocol = Literal["classic", "consumer"]
_DEAD: Final = GroupState.DEAD.value


class GroupRow(TypedDict):
    """`offsets` is null for share groups, which commit none."""

    id: str
    state: str
    type: Literal["classic", "consumer", "share", "streams"]
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


class SubscriptionRow(TypedDict):
    topics: list[str]
    expression: str


class MemberRow(TypedDict):
    """`epoch`, `target` and `subscription` are of members of groups of KIP-848, whose `protocol` may be classic."""

    id: str
    instance: str | None
    client: str
    host: str
    partition_count: int | None
    partitions: list[TopicPartition] | None
    protocol: Protocol
    epoch: int | None
    target_count: int | None
    target: list[TopicPartition] | None
    subscription: SubscriptionRow | None


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
    """`type` is consumer for groups of KIP-848, which have epochs, else classic."""

    id: str
    state: str
    type: GroupProtocol
    epoch: int | None
    target_epoch: int | None
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
    named = [(broker_id, listed.group_id) for broker_id, listed in shown if listed.group_type != GroupType.SHARE]
    counts = await counts_of(visitor, named)
    shared = [(broker_id, listed.group_id) for broker_id, listed in shown if listed.group_type == GroupType.SHARE]
    groups = await share_groups_of_each(visitor, shared)
    for _, group_id in shared:
        group = groups.get(group_id)
        counts[group_id] = GroupCounts(*((None,) * 3 if group is None else (len(group.members), None, group.lag)))
    return [
        {
            "id": listed.group_id,
            "state": listed.group_state,
            "type": _type(listed),
            "protocol_type": listed.protocol_type,
            "coordinator": broker_id,
            "members": counts[listed.group_id].members,
            "offsets": counts[listed.group_id].offsets,
            "lag": counts[listed.group_id].lag,
        }
        for broker_id, listed in shown
    ]


def _type(listed: ListedGroup) -> Literal["classic", "consumer", "share", "streams"]:
    match listed.group_type:
        case GroupType.SHARE:
            return "share"
        case GroupType.CONSUMER:
            return "consumer"
        case GroupType.STREAMS:
            return "streams"
    return "classic"  # also of a coordinator that does not say


async def counts_of(visitor: Visitor, groups: Sequence[tuple[int, str]]) -> dict[str, GroupCounts]:
    """Return what the coordinators of groups answer, which are given with the ids."""
    by_broker: dict[int, list[str]] = {}
    for broker_id, group_id in groups:
        by_broker.setdefault(broker_id, []).append(group_id)
    members: dict[str, int] = {}
    committed: dict[str, Committed] = {}
    for broker_id, ids in by_broker.items():
        with suppress(KafkaError):
            described = await describe_groups(visitor, broker_id, ids)
            members |= {group_id: len(group.members) for group_id, group in described.items() if not group.error}
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
    epochs = description.epochs
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
        "state": description.state,
        "type": description.type,
        "epoch": None if epochs is None else epochs.group,
        "target_epoch": None if epochs is None else epochs.target,
        "protocol_type": description.protocol_type,
        "assignor": description.assignor,
        "coordinator": group_coordinator(services, group_id),
        "lag": lag,
        "start": start,
        "count": count,
        "total": len(committed),
        "member_count": len(description.members),
        "members": [_member_row(member) async for member in slices.over(description.members[:ROWS_MAX])],
        "offsets": rows,
        "history": await _history(visitor, group_id, committed),
    }


async def read_group(visitor: Visitor, group_id: str) -> tuple[GroupDescription, Committed]:
    """Return a group and those of its offsets that the visitor may see; raise KafkaError."""
    visitor.check(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
    coordinator = group_coordinator(visitor.services, group_id)
    description = (await describe_groups(visitor, coordinator, [group_id]))[group_id]
    if description.error != ErrorCode.GROUP_ID_NOT_FOUND:  # it may have offsets
        check(group_id, description.error)
    offsets = await committed_of(visitor, coordinator, group_id)
    if description.state == _DEAD and not offsets:
        raise KafkaError(f"there is no group {group_id!r}", ErrorCode.GROUP_ID_NOT_FOUND)
    return description, await visible(visitor, offsets)


async def _history(visitor: Visitor, group_id: str, committed: Committed) -> list[LagRow] | None:
    """Return samples of the lag; None if another broker has them, or they count topics that the visitor may not see."""
    services = visitor.services
    is_here = group_coordinator(services, group_id) == services.node.id
    if not is_here or services.groups.count_offsets(group_id) != len(committed):
        return None
    return [{"time": sample.time_ms, "lag": sample.lag} for sample in visitor.samples.group_lags.of(group_id)]


def _member_row(member: DescribedMember) -> MemberRow:
    """Return a member; its partitions are null if they are not known, as those of groups of Kafka Connect."""
    assigned, progress = member.partitions, member.reconciliation
    is_classic = progress is None or progress.is_classic
    return {
        "id": member.id,
        "instance": member.instance,
        "client": member.client,
        "host": member.host,
        "partition_count": None if assigned is None else len(assigned),
        "partitions": _partition_rows(assigned),
        "protocol": "classic" if is_classic else "consumer",
        "epoch": None if progress is None else progress.epoch,
        "target_count": None if progress is None else len(progress.target),
        "target": None if progress is None else _partition_rows(progress.target),
        "subscription": None
        if progress is None
        else {"topics": [*progress.topics[:MEMBER_PARTITIONS_MAX]], "expression": progress.expression},
    }


def _partition_rows(partitions: Sequence[Key] | None) -> list[TopicPartition] | None:
    if partitions is None:
        return None
    return [{"topic": topic, "partition": index} for topic, index in partitions[:MEMBER_PARTITIONS_MAX]]


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
