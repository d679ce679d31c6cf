"""Partitions of a topic: whether each replica is there, whether one is too big, and the form that adds some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from statistics import median
from typing import Annotated, Any, Final

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import NO_LEADER, PartitionState, TopicImage
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.web.formats import count_text, size_text
from pylogbroker.web.offsets import Key, known_ends, known_starts
from pylogbroker.web.page_routes import RejectedField
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import INT32_MAX, Name
from pylogbroker.web.responsible_brokers import ask_all, controller_of
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import OneOf, whole_number
from pylogbroker.web.topic_pages.head import TopicPage, topic_head
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pylogbroker.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

_KEYS: Final = ("partition", "leader", "state", "first", "end", "records", "size")
SORTS: Final = (*_KEYS, *(f"-{key}" for key in _KEYS))
Sort = Annotated[str, OneOf(SORTS), "a column; with - before it downwards"]
_SENTENCES_MAX: Final = 5
"""Partitions that are named one by one in the sentence above the table."""
_BIG_TIMES: Final = 4
BIG_BYTES_MIN: Final = 64 * 1024 * 1024
"""A partition is big if it has at least these bytes, and so many times those of the middle one."""
_TIMEOUT_MS: Final = 10_000
_ABOUT_COUNT: Final = (ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REQUEST, ErrorCode.POLICY_VIOLATION)
"""Errors that the number of partitions is the cause of."""

Sizes = Mapping[tuple[int, int], int]
"""Bytes of a replica by broker and partition."""


@attrs.frozen
class ListedPartition:
    """A partition with its bounds and its bytes, None if nobody answers for them; `state` is empty if all is well."""

    partition: int
    state: PartitionState
    first: int | None
    end: int | None
    bytes: int | None
    archived: int | None
    """Bytes in the remote storage; None for a partition that is not archived, or has no replica here."""
    word: str
    kind: str

    @property
    def records(self) -> int | None:
        return None if self.first is None or self.end is None else self.end - self.first


@attrs.frozen
class Sentence:
    """Answer to a question; `kind` is ok, warn or bad."""

    kind: str
    title: str
    text: str


class PartitionTable(TopicPage, Paged):
    sentences: Sequence[Sentence]
    rows: Sequence[ListedPartition]
    adds: bool


async def topic_partitions(
    visitor: Visitor,
    topic: Name,
    sort: Sort = "partition",
    page: PageNumber = 1,
    add: Annotated[bool, "show the form that adds partitions"] = False,
) -> PartitionTable:
    """Return a page of partitions, and what is to be said about all of them."""
    head = await topic_head(visitor, topic)
    image = visitor.services.metadata.require_topic(topic)
    config = visitor.services.config.topic(visitor.services.metadata.topic_settings(topic))
    in_sync_min = config.min_insync_replicas if head.rights.see_settings else None
    sizes = await _sizes(visitor, image)
    rows = await _rows(visitor, image, sizes, in_sync_min)
    key, is_descending = _ORDERS[sort.removeprefix("-")], sort.startswith("-")
    rows.sort(key=key, reverse=is_descending)  # 10,000 rows take some milliseconds
    values, shown = paged(page, sort, rows)
    return {
        "head": head,
        **values,
        "sentences": sentences_of(rows, sizes, in_sync_min),
        "rows": shown,
        "adds": add and head.rights.alter,
    }


_ORDERS: Final[Mapping[str, Callable[[ListedPartition], Any]]] = {
    "partition": lambda row: row.partition,
    "leader": lambda row: (row.state.leader, row.partition),
    "state": lambda row: ({"": 0, "warn": 1, "bad": 2}[row.kind], row.word),
    "first": lambda row: -inf if row.first is None else row.first,
    "end": lambda row: -inf if row.end is None else row.end,
    "records": lambda row: -inf if row.records is None else row.records,
    "size": lambda row: -inf if row.bytes is None else row.bytes,
}


async def _sizes(visitor: Visitor, topic: TopicImage) -> Sizes:
    """Return the bytes of replicas here, and of those elsewhere for a visitor who may describe the cluster."""
    services = visitor.services
    hosted = services.partitions.hosted
    sizes = {
        (services.node.id, index): hosted[topic.name, index].log.size
        async for index in services.runtime.slices.over(topic.partitions)
        if (topic.name, index) in hosted
    }
    is_alone = len(services.metadata.image.brokers) <= 1
    if is_alone or not visitor.allows(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME):
        return sizes
    request = DescribeLogDirsRequest([DescribableLogDirTopic(topic.name, [*topic.partitions])])
    for broker_id, answer in (await ask_all(visitor, request)).items():
        for directory in () if answer is None else answer.results:
            for described in directory.topics:
                async for row in services.runtime.slices.over(described.partitions):
                    if not row.is_future_key:
                        sizes[broker_id, row.partition_index] = row.partition_size
    return sizes


async def _rows(visitor: Visitor, topic: TopicImage, sizes: Sizes, in_sync_min: int | None) -> list[ListedPartition]:
    services = visitor.services
    hosted = services.partitions.hosted
    keys: list[Key] = [(topic.name, index) for index in sorted(topic.partitions)]
    elsewhere = [key async for key in services.runtime.slices.over(keys) if key not in hosted]
    starts, ends = await known_starts(visitor, elsewhere), await known_ends(visitor, elsewhere)
    rows = []
    async for key in services.runtime.slices.over(keys):
        index, state = key[1], topic.partitions[key[1]]
        first, end = starts.get(key), ends.get(key)
        if key in hosted:
            first, end = hosted[key].log.log_start_offset, hosted[key].log.high_watermark
        size = sizes.get((state.leader, index), sizes.get((services.node.id, index)))
        word, kind = _state(index, state, sizes, in_sync_min)
        archive = hosted[key].archive if key in hosted else None
        archived = archive.size if archive is not None and archive.is_listed else None
        rows.append(ListedPartition(index, state, first, end, size, archived, word, kind))
    return rows


def _state(index: int, state: PartitionState, sizes: Sizes, in_sync_min: int | None) -> tuple[str, str]:
    """Return a partition's odd state in words, and how bad it is; empty texts if all is well."""
    if state.leader == NO_LEADER:
        return "no leader", "bad"
    move = f"moves to {_listed(state.target)}{_share(index, state, state.adding, sizes)}" if state.is_reassigned else ""
    if _rejects_writes(state, in_sync_min):
        return f"{len(state.isr)} in sync, {in_sync_min} needed{', ' if move else ''}{move}", "bad"
    missing = _missing(state)
    if missing and not move:
        return f"{_listed(missing)} not in sync{_share(index, state, missing, sizes)}", "warn"
    return (f"{_listed(missing)} not in sync, {move}" if missing else move), "warn" if move else ""


def _rejects_writes(state: PartitionState, in_sync_min: int | None) -> bool:
    """Return whether writes with acks=all are rejected; False if the setting is not shown to the visitor."""
    return in_sync_min is not None and len(state.isr) < in_sync_min


def _share(index: int, state: PartitionState, brokers: Iterable[int], sizes: Sizes) -> str:
    """Return how much the slowest of some replicas has of what the leader has."""
    whole = sizes.get((state.leader, index), 0)
    parts = [sizes[broker, index] for broker in brokers if (broker, index) in sizes]
    return f", {min(100, 100 * min(parts) // whole)} %" if whole and parts else ""


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def sentences_of(rows: Sequence[ListedPartition], sizes: Sizes, in_sync_min: int | None) -> list[Sentence]:
    """Return whether each replica is there, what moves, and whether one partition is too big."""
    return [
        *_about_leaders(rows),
        *_about_writes(rows, in_sync_min),
        *_about_replicas(rows, sizes, in_sync_min),
        *_about_moves(rows, sizes),
        *_about_sizes(rows),
    ]


def _about_leaders(rows: Sequence[ListedPartition]) -> Iterable[Sentence]:
    offline = [row for row in rows if row.state.leader == NO_LEADER]
    if offline:
        brokers = sorted({broker for row in offline for broker in row.state.replicas})
        text = f"Clients can neither write nor read there. Start a broker that has the replicas: {_listed(brokers)}."
        yield Sentence("bad", f"{_named(offline)} no leader.", text)


def _about_writes(rows: Sequence[ListedPartition], in_sync_min: int | None) -> Iterable[Sentence]:
    rejecting = [row for row in rows if row.state.leader != NO_LEADER and _rejects_writes(row.state, in_sync_min)]
    if rejecting:
        reject, have = ("rejects", "It has") if len(rejecting) == 1 else ("reject", "They have")
        text = f"{have} fewer replicas in sync than min.insync.replicas, which is {in_sync_min}."
        yield Sentence("bad", f"{_named(rejecting, '')} {reject} writes with acks=all.", text)


def _about_replicas(rows: Sequence[ListedPartition], sizes: Sizes, in_sync_min: int | None) -> Iterable[Sentence]:
    behind = [row for row in rows if row.state.leader != NO_LEADER and _missing(row.state)]
    if behind:
        missing = sorted({broker for row in behind for broker in _missing(row.state)})
        text = f"Broker {_listed(missing)} is missing{_left(behind, _missing, sizes)}: start it, or wait until it has "
        text += "caught up."
        if in_sync_min is not None and not any(_rejects_writes(row.state, in_sync_min) for row in behind):
            text += f" Writes go on: min.insync.replicas is {in_sync_min}."
        yield Sentence("warn", f"{_named(behind)} replicas that are not in sync.", text)
    elif all(row.state.leader != NO_LEADER for row in rows):
        replicas = {len(row.state.origin) for row in rows}
        count = f"{count_text(len(rows))} partitions have" if len(rows) > 1 else "partition has"
        if replicas == {1}:
            what = "its leader" if len(rows) == 1 else "their leader"
            yield Sentence("ok", f"The {count} {what}.", "There is one replica of each, so no other copy.")
        else:
            yield Sentence("ok", f"The {count} all replicas in sync.", "")


def _about_moves(rows: Sequence[ListedPartition], sizes: Sizes) -> Iterable[Sentence]:
    moving = [row for row in rows if row.state.is_reassigned]
    if moving:
        text = f"Clients notice nothing of the move{_left(moving, lambda state: state.adding, sizes)}. "
        text += "The replicas that go are removed once the new ones are in sync."
        are = "is" if len(moving) == 1 else "are"
        yield Sentence("warn", f"{_named(moving, '')} {are} being moved to other brokers.", text)


def _about_sizes(rows: Sequence[ListedPartition]) -> Iterable[Sentence]:
    each_size = [row.bytes for row in rows if row.bytes is not None]
    if len(each_size) < 2:
        return
    biggest = max(rows, key=lambda row: row.bytes or 0)
    size, middle = biggest.bytes or 0, median(each_size)
    if size >= BIG_BYTES_MIN and size >= _BIG_TIMES * middle:
        times = f"{size / middle:.0f} times as much as" if middle else "more than"
        text = f"It has {size_text(size)}, {times} the middle one. Keys decide: some have much more data."
        yield Sentence("warn", f"Partition {biggest.partition} is much bigger than the others.", text)
    else:
        yield Sentence("ok", "No partition is too big.", f"They have {size_text(min(each_size))} to {size_text(size)}.")


def _missing(state: PartitionState) -> Sequence[int]:
    """Return brokers whose replicas are not in sync, without those that a reassignment adds."""
    return [broker for broker in state.replicas if broker not in state.isr and broker not in state.adding]


def _left(rows: Sequence[ListedPartition], brokers_of: Callable[[PartitionState], Sequence[int]], sizes: Sizes) -> str:
    """Return how much is still to be copied, if the sizes of all these replicas are known."""
    left = 0
    for row in rows:
        whole = sizes.get((row.state.leader, row.partition))
        for broker in brokers_of(row.state):
            part = sizes.get((broker, row.partition))
            if whole is None or part is None:
                return ""
            left += max(0, whole - part)
    return f"; {size_text(left)} are still to be copied" if left else ""


def _named(rows: Sequence[ListedPartition], has: str = " has") -> str:
    numbers = sorted(row.partition for row in rows)
    if len(numbers) == 1:
        return f"Partition {numbers[0]}{has}"
    more = f" and {count_text(len(numbers) - _SENTENCES_MAX)} more" if len(numbers) > _SENTENCES_MAX else ""
    return f"Partitions {_listed(numbers[:_SENTENCES_MAX])}{more}{has and ' have'}"


async def add_partitions(
    visitor: Visitor, topic: Name, count: Annotated[str, "partitions of the topic in all"] = ""
) -> dict[str, str]:
    """Give a topic more partitions."""
    visitor.check(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
    now = len(visitor.services.metadata.require_topic(topic).partitions)
    number = whole_number(count.replace(",", ""))
    if number is None or not now < number <= INT32_MAX:
        raise BadRequest(f"Write a number above {now}.", "count")
    request = CreatePartitionsRequest([CreatePartitionsTopic(topic, number, None)], _TIMEOUT_MS)
    try:
        result = await visitor.ask_one(request, "results", controller_of(visitor.services), name=topic)
        raise_for(result.error_code, result.error_message)
    except KafkaError as failure:
        if failure.code not in _ABOUT_COUNT:
            raise
        raise RejectedField(failure, "count") from None
    return {"topic": topic}
