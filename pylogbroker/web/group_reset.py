"""Reset of a group's committed offsets, first as a preview."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import attrs

from pylogbroker.broker.slices import sort_in_steps
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import code_of
from pylogbroker.web.group_offsets import Committed
from pylogbroker.web.group_views import read_group
from pylogbroker.web.offsets import Key, offsets_at
from pylogbroker.web.query import BadQuery, Query, milliseconds
from pylogbroker.web.routing import group_coordinator
from pylogbroker.web.rows import ROWS_MAX
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

TARGETS: Final = ("earliest", "latest", "offset", "time", "shift")
_COMMITTED_MAX: Final = 2000
"""Offsets of one request: to encode it must not take long."""
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")


@attrs.frozen
class _Plan:
    group: str
    state: str
    before: Committed
    ends: Mapping[Key, int]
    after: Mapping[Key, int]

    def values(self, query: Query) -> dict[str, Any]:
        return {
            "id": self.group,
            "state": self.state,
            "may_reset": self.state in _WITHOUT_MEMBERS,
            "total": len(self.after),
            "parameters": {name: query.text(name) for name in ("topic", "partition", "to", "offset", "time", "by")},
            "offsets": [
                {
                    "topic": topic,
                    "partition": partition,
                    "before": self.before[topic, partition].offset,
                    "after": self.after[topic, partition],
                    "lag": self.ends[topic, partition] - self.after[topic, partition],
                }
                for topic, partition in islice(self.after, ROWS_MAX)
            ],
        }


async def preview_reset(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return the offsets that a reset would commit, of which the first rows are shown."""
    return (await _planned(visitor, query)).values(query)


async def reset_group(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Commit offsets for a group without members."""
    plan = await _planned(visitor, query)
    if plan.state not in _WITHOUT_MEMBERS:
        raise KafkaError(
            f"group {plan.group} is {plan.state}: stop its members first, they would commit over the new offsets",
            ErrorCode.NON_EMPTY_GROUP,
        )
    offsets = list(plan.after.items())
    for start in range(0, len(offsets), _COMMITTED_MAX):
        await _commit(visitor, plan, offsets[start : start + _COMMITTED_MAX])
    return plan.values(query)


async def _commit(visitor: Visitor, plan: _Plan, offsets: Sequence[tuple[Key, int]]) -> None:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    async for (topic, partition), offset in visitor.services.runtime.slices.over(offsets):
        row = OffsetCommitRequestPartition(partition, offset, committed_metadata=plan.before[topic, partition].metadata)
        topics.setdefault(topic, OffsetCommitRequestTopic(topic)).partitions.append(row)
    request = OffsetCommitRequest(plan.group, topics=[*topics.values()])
    answer = await visitor.ask(request, group_coordinator(visitor.services, plan.group))
    async for each in visitor.services.runtime.slices.over(answer.topics):
        for row in each.partitions:
            if row.error_code:
                raise KafkaError(f"{each.name}-{row.partition_index} was not reset", code_of(row.error_code))


async def _planned(visitor: Visitor, query: Query) -> _Plan:
    group_id = query.required("id")
    query.filled("to")
    found, committed = await read_group(visitor, group_id)
    keys = await _wanted(visitor, query, committed)
    starts, ends = await offsets_at(visitor, keys, EARLIEST), await offsets_at(visitor, keys, LATEST)
    targets = await _targets(visitor, query, keys, committed, (starts, ends))
    over = visitor.services.runtime.slices.over
    after = {key: min(max(targets[key], starts[key]), ends[key]) async for key in over(keys)}
    return _Plan(group_id, found.group_state, committed, ends, after)


async def _wanted(visitor: Visitor, query: Query, committed: Committed) -> list[Key]:
    """Return the partitions with an offset, in order; those of deleted topics are left out."""
    topic, partition = query.text("topic"), query.number("partition")
    existing = visitor.services.metadata.topics
    keys = [
        key
        async for key in visitor.services.runtime.slices.over(committed)
        if (not topic or key[0] == topic)
        and partition in (None, key[1])
        and key[0] in existing
        and key[1] in existing[key[0]].partitions
    ]
    if not keys:
        raise BadQuery("the group has no committed offset of such a partition")
    slices = visitor.services.runtime.slices
    return [key async for key in slices.over(await slices.run(sort_in_steps(keys)))]


async def _targets(
    visitor: Visitor,
    query: Query,
    keys: Iterable[Key],
    committed: Committed,
    bounds: tuple[Mapping[Key, int], Mapping[Key, int]],
) -> Mapping[Key, int]:
    over = visitor.services.runtime.slices.over
    starts, ends = bounds
    target = query.choice("to", TARGETS)
    if target == "earliest":
        return starts
    if target == "latest":
        return ends
    if target == "offset":
        offset = query.number("offset")
        if offset is None:
            raise BadQuery("offset is missing")
        return dict.fromkeys(keys, offset)
    if target == "time":
        found = await offsets_at(visitor, keys, milliseconds(query.required("time")))
        return {key: ends[key] if offset < 0 else offset async for key, offset in over(found.items())}
    by = query.shift("by")
    return {key: committed[key].offset + by async for key in over(keys)}
