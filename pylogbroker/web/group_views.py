"""Consumer groups of all brokers, each shown by its coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pylogbroker.broker.slices import sort_in_steps
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import CommittedOffset
from pylogbroker.rpc.errors import code_of
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.offsets import Key, known_ends
from pylogbroker.web.query import Query
from pylogbroker.web.routing import ask_all, group_coordinator
from pylogbroker.web.rows import ROWS_MAX, slice_rows
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from pylogbroker.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest

Committed = Mapping[Key, CommittedOffset]
_OFFSET_FETCH_VERSION: Final = 7
"""The last one of requests for a single group."""


async def groups(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return groups by id, from the `start`th on, of those whose ids contain `search`."""
    search, slices = query.text("search"), visitor.services.runtime.slices
    answers = await ask_all(visitor, ListGroupsRequest())
    matching: dict[str, tuple[int, ListedGroup]] = {}
    for broker_id, answer in answers.items():
        async for each in slices.over(() if answer is None else answer.groups):
            if search in each.group_id:
                matching[each.group_id] = broker_id, each
    in_order = slices.over(await slices.run(sort_in_steps(list(matching))))
    values, shown = slice_rows(query, [matching[group_id] async for group_id in in_order])
    return {
        "search": search,
        **values,
        "is_complete": not any(answer is None or answer.error_code for answer in answers.values()),
        "groups": await _group_rows(visitor, shown),
    }


async def _group_rows(visitor: Visitor, shown: Sequence[tuple[int, ListedGroup]]) -> list[dict[str, Any]]:
    """Return rows of groups with their coordinators, which are asked for the members."""
    asked: dict[int, list[str]] = {}
    for broker_id, each in shown:
        asked.setdefault(broker_id, []).append(each.group_id)
    members: dict[str, int] = {}
    for broker_id, ids in asked.items():
        with suppress(KafkaError):
            described = (await visitor.ask(DescribeGroupsRequest(ids), broker_id)).groups
            members |= {each.group_id: len(each.members) for each in described if not each.error_code}
    services = visitor.services
    return [
        {
            "id": each.group_id,
            "state": each.group_state,
            "protocol_type": each.protocol_type,
            "coordinator": broker_id,
            "members": members.get(each.group_id),
            "offsets": services.groups.count_offsets(each.group_id) if broker_id == services.node.id else None,
        }
        for broker_id, each in shown
    ]


async def group(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return a group: members, and committed offsets from the `start`th on, with lag."""
    services, group_id = visitor.services, query.required("id")
    start, count = query.count("start", 0), query.count("count", ROWS_MAX, ROWS_MAX)
    slices, (found, committed) = services.runtime.slices, await read_group(visitor, group_id)
    ends = await _ends(visitor, committed)
    keys = await slices.run(sort_in_steps(list(committed)))
    lag, rows = 0, list[dict[str, Any]]()
    async for number, key in slices.over(enumerate(keys)):
        row = _offset_row(key, committed[key], ends.get(key))
        lag += row["lag"] or 0
        if start <= number < start + count:
            rows.append(row)
    return {
        "id": group_id,
        "state": found.group_state,
        "protocol_type": found.protocol_type,
        "assignor": found.protocol_data,
        "coordinator": group_coordinator(services, group_id),
        "lag": lag,
        "start": start,
        "count": count,
        "total": len(committed),
        "members": [
            {
                "id": each.member_id,
                "instance": each.group_instance_id,
                "client": each.client_id,
                "host": each.client_host,
            }
            for each in found.members
        ],
        "offsets": rows,
    }


async def read_group(visitor: Visitor, group_id: str) -> tuple[DescribedGroup, Committed]:
    """Return a group and those of its offsets that the visitor may see; raise KafkaError."""
    visitor.check(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
    coordinator = group_coordinator(visitor.services, group_id)
    [found] = (await visitor.ask(DescribeGroupsRequest([group_id]), coordinator)).groups
    _check(group_id, found.error_code)
    offsets = await (
        _offsets_here(visitor, group_id)
        if coordinator == visitor.services.node.id
        else _offsets_elsewhere(visitor, group_id, coordinator)
    )
    if found.group_state == "Dead" and not offsets:
        raise KafkaError(f"there is no group {group_id!r}", ErrorCode.GROUP_ID_NOT_FOUND)
    over = visitor.services.runtime.slices.over
    return found, {key: offset async for key, offset in over(offsets.items()) if visitor.sees_topic(key[0])}


async def _offsets_here(visitor: Visitor, group_id: str) -> Committed:
    fetched = visitor.services.groups.fetch(group_id)
    _check(group_id, fetched.error)
    over = visitor.services.runtime.slices.over
    return {key: each async for key, each in over(fetched.offsets.items()) if isinstance(each, CommittedOffset)}


async def _offsets_elsewhere(visitor: Visitor, group_id: str, coordinator: int) -> Committed:
    """Return offsets of a group that the visitor may see, without times, which the response does not have."""
    request = OffsetFetchRequest(group_id, None)
    answer = await visitor.services.peers.send(coordinator, request, _OFFSET_FETCH_VERSION)
    _check(group_id, answer.error_code)
    rows = ((topic.name, each) for topic in answer.topics for each in topic.partitions)
    return {
        (name, each.partition_index): CommittedOffset(each.committed_offset, metadata=each.metadata or "")
        async for name, each in visitor.services.runtime.slices.over(rows)
        if not each.error_code and each.committed_offset >= 0
    }


def _check(group_id: str, number: int) -> None:
    if number:
        error = code_of(number)
        raise KafkaError(f"the group {group_id!r} cannot be read: {error.meaning}", error)


async def _ends(visitor: Visitor, committed: Committed) -> Mapping[Key, int]:
    """Return high watermarks, of the leader if this broker has no replica; unknown ones are left out."""
    hosted, over = visitor.services.partitions.hosted, visitor.services.runtime.slices.over
    here = {key: hosted[key].log.high_watermark async for key in over(committed) if key in hosted}
    return here | await known_ends(visitor, [key async for key in over(committed) if key not in here])


def _offset_row(key: Key, committed: CommittedOffset, end: int | None) -> dict[str, Any]:
    return {
        "topic": key[0],
        "partition": key[1],
        "offset": committed.offset,
        "high_watermark": end,
        "lag": None if end is None else max(0, end - committed.offset),
        "committed": committed.committed if committed.committed >= 0 else None,
        "metadata": committed.metadata,
    }
