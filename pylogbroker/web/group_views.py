"""Consumer groups whose coordinator is this broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pylogbroker.broker.services import Services
from pylogbroker.broker.slices import sort_in_steps
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import CommittedOffset, GroupDescription, GroupOverview
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.offsets import Key
from pylogbroker.web.query import Query
from pylogbroker.web.rows import ROWS_MAX
from pylogbroker.web.visitors import Visitor

Committed = Mapping[Key, CommittedOffset]


async def groups(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return groups by id, from the `start`th on, of those whose ids contain `search`."""
    search, start, count = query.text("search"), query.count("start", 0), query.count("count", ROWS_MAX, ROWS_MAX)
    services, slices = visitor.services, visitor.services.runtime.slices
    error, found = await slices.run(services.groups.list_groups())
    matching = [
        each async for each in slices.over(found) if search in each.group_id and visitor.sees_group(each.group_id)
    ]
    in_order = await slices.run(sort_in_steps(matching, key=lambda each: each.group_id))
    numbered = slices.over(enumerate(in_order))
    rows = [_group_row(services, each) async for number, each in numbered if start <= number < start + count]
    return {
        "search": search,
        "start": start,
        "count": count,
        "total": len(matching),
        "is_complete": not error,
        "groups": rows,
    }


def _group_row(services: Services, group: GroupOverview) -> dict[str, Any]:
    return {
        "id": group.group_id,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "members": len(services.groups.describe(group.group_id).members),
        "offsets": services.groups.count_offsets(group.group_id),
    }


async def group(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return a group: members, and committed offsets from the `start`th on, with lag."""
    services, group_id = visitor.services, query.required("id")
    start, count = query.count("start", 0), query.count("count", ROWS_MAX, ROWS_MAX)
    slices, (found, committed) = services.runtime.slices, await read_group(visitor, group_id)
    keys = await slices.run(sort_in_steps(list(committed)))
    lag, rows = 0, list[dict[str, Any]]()
    async for number, key in slices.over(enumerate(keys)):
        row = _offset_row(services, *key, committed[key])
        lag += row["lag"] or 0
        if start <= number < start + count:
            rows.append(row)
    return {
        "id": group_id,
        "state": found.state,
        "protocol_type": found.protocol_type,
        "assignor": found.protocol_name,
        "lag": lag,
        "start": start,
        "count": count,
        "total": len(committed),
        "members": [
            {"id": each.member_id, "instance": each.instance_id, "client": each.client_id, "host": each.client_host}
            for each in found.members
        ],
        "offsets": rows,
    }


async def read_group(visitor: Visitor, group_id: str) -> tuple[GroupDescription, Committed]:
    """Return a group and those of its offsets that the visitor may see; raise KafkaError."""
    visitor.check(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
    groups = visitor.services.groups
    found = groups.describe(group_id)
    _check(group_id, found.error)
    fetched = groups.fetch(group_id)
    _check(group_id, fetched.error)
    if found.state == "Dead" and not fetched.offsets:
        raise KafkaError(f"there is no group {group_id!r} here", ErrorCode.GROUP_ID_NOT_FOUND)
    committed = {
        key: offset
        async for key, offset in visitor.services.runtime.slices.over(fetched.offsets.items())
        if isinstance(offset, CommittedOffset) and visitor.sees_topic(key[0])
    }
    return found, committed


def _check(group_id: str, error: ErrorCode) -> None:
    if error:
        raise KafkaError(f"the group {group_id!r} cannot be read: {error.meaning}", error)


def _offset_row(services: Services, topic: str, partition: int, committed: CommittedOffset) -> dict[str, Any]:
    """Return an offset; its lag is None if this broker has no replica of the partition."""
    hosted = services.partitions.hosted.get((topic, partition))
    end = None if hosted is None else hosted.log.high_watermark
    return {
        "topic": topic,
        "partition": partition,
        "offset": committed.offset,
        "high_watermark": end,
        "lag": None if end is None else max(0, end - committed.offset),
        "committed": committed.committed,
        "metadata": committed.metadata,
    }
