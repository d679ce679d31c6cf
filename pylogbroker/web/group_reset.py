"""Reset of a group's committed offsets, first as a preview."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Final, Literal, TypedDict

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import code_of
from pylogbroker.web.changes import after_others
from pylogbroker.web.group_offsets import Committed
from pylogbroker.web.group_views import GroupId, has_members, read_group
from pylogbroker.web.offsets import Key, offsets_at
from pylogbroker.web.parameters import ROWS_MAX, Index, Name, Offset, Time, milliseconds
from pylogbroker.web.responsible_brokers import group_coordinator
from pylogbroker.web.router import BadRequest
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_COMMITTED_MAX: Final = 2000
"""Offsets of one request: to encode it must not take long."""
Target = Literal["earliest", "latest", "offset", "time", "shift"]


class ResetRow(TypedDict):
    topic: str
    partition: int
    before: int
    after: int
    lag: int


class ResetParameters(TypedDict):
    """The parameters again, as a form has them; those that are not given are empty."""

    topic: str
    partition: str
    to: str
    offset: str
    time: str
    by: str


class Reset(TypedDict):
    id: str
    state: str
    may_reset: bool
    total: int
    parameters: ResetParameters
    offsets: list[ResetRow]


@attrs.frozen
class ResetRequest:
    """Partitions of a reset, and where their offsets go."""

    to: Target
    topic: str = ""
    partition: int | None = None
    offset: int | None = None
    time: str | int = ""
    by: int | None = None

    def parameters(self) -> ResetParameters:
        return {
            "topic": self.topic,
            "partition": _text(self.partition),
            "to": self.to,
            "offset": _text(self.offset),
            "time": str(self.time),
            "by": _text(self.by),
        }


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


@attrs.frozen
class ResetPlan:
    """Offsets of a reset: those of the group now, the ends of the partitions, and the new ones."""

    group: str
    state: str
    before: Committed
    ends: Mapping[Key, int]
    after: Mapping[Key, int]

    def values(self, request: ResetRequest) -> Reset:
        return {
            "id": self.group,
            "state": self.state,
            "may_reset": not has_members(self.state),
            "total": len(self.after),
            "parameters": request.parameters(),
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


ResetTopic = Annotated[Name, "only this topic"]
ResetPartition = Annotated[Index | None, "only this partition"]
Shift = Annotated[int | None, "records to go further, or back if negative"]


async def preview_reset(
    visitor: Visitor,
    id: GroupId,
    to: Target,
    topic: ResetTopic = "",
    partition: ResetPartition = None,
    offset: Offset | None = None,
    time: Time = "",
    by: Shift = None,
) -> Reset:
    """Return the offsets that a reset would commit, of which the first rows are shown."""
    request = ResetRequest(to, topic, partition, offset, time, by)
    return (await plan_reset(visitor, id, request)).values(request)


async def reset_group(
    visitor: Visitor,
    id: GroupId,
    to: Target,
    topic: ResetTopic = "",
    partition: ResetPartition = None,
    offset: Offset | None = None,
    time: Time = "",
    by: Shift = None,
) -> Reset:
    """Commit offsets for a group without members."""
    request = ResetRequest(to, topic, partition, offset, time, by)
    plan = await plan_reset(visitor, id, request)
    if has_members(plan.state):
        raise KafkaError(
            f"group {plan.group} is {plan.state}: stop its members first, they would commit over the new offsets",
            ErrorCode.NON_EMPTY_GROUP,
        )
    offsets = list(plan.after.items())
    for start in range(0, len(offsets), _COMMITTED_MAX):
        with after_others(start):
            await _commit(visitor, plan, offsets[start : start + _COMMITTED_MAX])
    return plan.values(request)


async def _commit(visitor: Visitor, plan: ResetPlan, offsets: Sequence[tuple[Key, int]]) -> None:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    async for (topic, partition), offset in visitor.services.runtime.slices.over(offsets):
        row = OffsetCommitRequestPartition(partition, offset, committed_metadata=plan.before[topic, partition].metadata)
        topics.setdefault(topic, OffsetCommitRequestTopic(topic)).partitions.append(row)
    request = OffsetCommitRequest(plan.group, topics=[*topics.values()])
    coordinator = group_coordinator(visitor.services, plan.group)
    answer = await visitor.ask(request, coordinator)
    rows = rows_by_key(answer, "topics.partitions", coordinator, (key for key, _ in offsets), _key)
    failed = [
        (f"{topic}-{partition}", code_of(row.error_code)) for (topic, partition), row in rows.items() if row.error_code
    ]
    with after_others(len(offsets) - len(failed)):
        for name, code in failed:
            raise KafkaError(f"{name} was not reset: {code.meaning}", code)


def _key(topic: OffsetCommitResponseTopic, partition: OffsetCommitResponsePartition) -> Key:
    return topic.name, partition.partition_index


async def plan_reset(visitor: Visitor, group_id: str, request: ResetRequest) -> ResetPlan:
    """Return the offsets that a reset would commit; raise BadRequest or KafkaError."""
    description, committed = await read_group(visitor, group_id)
    keys = await _keys(visitor, request, committed)
    starts, ends = await offsets_at(visitor, keys, EARLIEST), await offsets_at(visitor, keys, LATEST)
    targets = await _targets(visitor, request, keys, committed, (starts, ends))
    over = visitor.services.runtime.slices.over
    after = {key: min(max(targets[key], starts[key]), ends[key]) async for key in over(keys)}
    return ResetPlan(group_id, description.state, committed, ends, after)


async def _keys(visitor: Visitor, request: ResetRequest, committed: Committed) -> list[Key]:
    """Return the partitions with an offset, in order; those of deleted topics are left out."""
    topic, partition = request.topic, request.partition
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
        raise BadRequest("the group has no committed offset of such a partition")
    return await visitor.services.runtime.slices.in_order(keys)


async def _targets(
    visitor: Visitor,
    request: ResetRequest,
    keys: Iterable[Key],
    committed: Committed,
    bounds: tuple[Mapping[Key, int], Mapping[Key, int]],
) -> Mapping[Key, int]:
    over = visitor.services.runtime.slices.over
    starts, ends = bounds
    if request.to == "earliest":
        return starts
    if request.to == "latest":
        return ends
    if request.to == "offset":
        if request.offset is None:
            raise BadRequest("offset is missing", "offset")
        return dict.fromkeys(keys, request.offset)
    if request.to == "time":
        if not request.time:
            raise BadRequest("time is missing", "time")
        offsets = await offsets_at(visitor, keys, milliseconds(request.time))
        return {key: ends[key] if offset < 0 else offset async for key, offset in over(offsets.items())}
    by = request.by
    if by is None:
        raise BadRequest("by is missing", "by")
    return {key: committed[key].offset + by async for key in over(keys)}
