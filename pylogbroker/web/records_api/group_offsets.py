"""Offsets of groups: what a group has committed, and commits of programs that read by HTTP.

A commit is that of a consumer without a group's assignment: the group must have no members, which commit themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, NotRequired, TypedDict

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import CommittedOffset
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import code_of
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.group_offsets import committed_of, ends_of, lag_at, visible
from pylogbroker.web.offsets import Key
from pylogbroker.web.parameters import INT32_MAX, Index, Name, Offset
from pylogbroker.web.records_api.calls import HttpCall
from pylogbroker.web.records_api.errors import Rejected
from pylogbroker.web.records_api.positions import PARTITIONS_MAX, Positions, named_positions
from pylogbroker.web.responsible_brokers import group_coordinator
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.requests import content_type_of, members_of
from pylogbroker.web.router.routes import JSON
from pylogbroker.web.router.values import BadValue, from_json
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

ROWS_MAX: Final = 10_000
_COMMIT_VERSION: Final = 5
"""Brokers of the cluster may be old."""
_HAS_MEMBERS: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)


class CommittedRow(TypedDict):
    """Offset that a group goes on from; the lag is null if the end of the partition is not known."""

    topic: str
    partition: int
    offset: int
    metadata: str
    lag: int | None


class CommittedOffsets(TypedDict):
    """Offsets of a group on topics that the visitor may see."""

    group: str
    total: int
    offsets: Annotated[list[CommittedRow], f"at most {ROWS_MAX:,}"]


class NewOffset(TypedDict):
    """Offset of the next record to read."""

    topic: Name
    partition: Index
    offset: Offset
    metadata: NotRequired[str]


class NewOffsets(TypedDict, total=False):
    """Offsets to commit: `next` of a request for records with its topic, or a list."""

    topic: Name
    next: str
    offsets: list[NewOffset]


async def group_committed(call: HttpCall, id: Name, topic: Annotated[Name, "by default all"] = "") -> None:
    """Return the offsets that a group has committed."""
    visitor = call.visitor
    visitor.check(AclOperation.DESCRIBE, AclResourceType.GROUP, id)
    committed = await visible(visitor, await _committed(visitor, id))
    over = visitor.services.runtime.slices.over
    keys = [key async for key in over(sorted(committed)) if not topic or key[0] == topic]
    shown = keys[:ROWS_MAX]
    ends = await ends_of(visitor, shown)
    rows: list[CommittedRow] = [
        {
            "topic": key[0],
            "partition": key[1],
            "offset": committed[key].offset,
            "metadata": committed[key].metadata,
            "lag": lag_at(committed[key], ends.get(key)),
        }
        async for key in over(shown)
    ]
    await call.answer(200, {"group": id, "total": len(keys), "offsets": rows}, len(rows))


async def committed_positions(visitor: Visitor, group: str, topic: str) -> Positions:
    """Return where a group goes on in a topic; raise KafkaError."""
    visitor.check(AclOperation.READ, AclResourceType.GROUP, group)
    committed = await _committed(visitor, group)
    over = visitor.services.runtime.slices.over
    return {key[1]: offset.offset async for key, offset in over(committed.items()) if key[0] == topic}


async def _committed(visitor: Visitor, group: str) -> Mapping[Key, CommittedOffset]:
    """Return the offsets of a group; none of one that nobody has."""
    if OFFSETS_TOPIC not in visitor.services.metadata.topics:
        return {}
    try:
        return await committed_of(visitor, group_coordinator(visitor.services, group), group)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return {}


async def commit_offsets(call: HttpCall, id: Name) -> None:
    """Commit offsets of a group that has no members."""
    visitor, services = call.visitor, call.visitor.services
    if content_type_of(call.request) != JSON:
        raise Rejected(415, f"expected {JSON}: curl --json sends it")
    rows = _rows(visitor, members_of(await call.document()))
    await services.group_service.ensure_topic()
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for row in rows:
        partition = OffsetCommitRequestPartition(
            row["partition"], row["offset"], committed_metadata=row.get("metadata", "")
        )
        topics.setdefault(row["topic"], OffsetCommitRequestTopic(row["topic"])).partitions.append(partition)
    coordinator = group_coordinator(services, id)
    answer = await visitor.ask(OffsetCommitRequest(id, topics=[*topics.values()]), coordinator, _COMMIT_VERSION)
    keys: list[Key] = [(row["topic"], row["partition"]) for row in rows]
    results = rows_by_key(
        answer, "topics.partitions", coordinator, keys, lambda topic, row: (topic.name, row.partition_index)
    )
    for (topic, index), row in results.items():
        _check(id, topic, index, row.error_code)
    await call.answer(200, {"group": id, "committed": len(rows)})


class Committed(TypedDict):
    """Number of offsets that are committed."""

    group: str
    committed: int


def _check(group: str, topic: str, index: int, number: int) -> None:
    if not number:
        return
    code = code_of(number)
    if code in _HAS_MEMBERS:
        raise Rejected(409, f"the group {group!r} has members, which commit its offsets: choose another group")
    raise KafkaError(f"the offset of {topic}-{index} is not committed: {code.meaning}", code)


def _rows(visitor: Visitor, members: dict[str, Any]) -> list[NewOffset]:
    """Return the offsets of a body; raise BadRequest or KafkaError."""
    try:
        body: NewOffsets = from_json(NewOffsets, members, "the body")
    except BadValue as error:
        raise BadRequest(str(error)) from None
    unknown = next((name for name in members if name not in NewOffsets.__annotations__), None)
    if unknown is not None:
        raise BadRequest(f"there is no {unknown!r} here: write topic and next, or offsets")
    rows = list(body.get("offsets", ()))
    if "next" in body:
        topic = body.get("topic", "")
        if not topic:
            raise BadRequest("topic is missing: next is about one", "topic")
        visitor.check(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
        rows += [
            {"topic": topic, "partition": index, "offset": offset}
            for index, offset in named_positions(visitor, topic, body["next"], "next").items()
        ]
    for row in rows:
        for name in ("topic", "partition", "offset"):
            if name not in row:
                raise BadRequest(f"{name} is missing in a row of offsets", name)
        if row["partition"] > INT32_MAX:
            raise BadRequest("a partition is too large", "partition")
    if not rows:
        raise BadRequest("there are no offsets: write topic and next, or offsets")
    if len(rows) > PARTITIONS_MAX:
        raise BadRequest(f"a commit has at most {PARTITIONS_MAX} offsets")
    if len({(row["topic"], row["partition"]) for row in rows}) < len(rows):
        raise BadRequest("a partition occurs twice")
    return rows
