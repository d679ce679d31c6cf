"""Reassignments in progress, with what their new replicas still have to copy; and the form that cancels one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from pylogbroker.errors import KafkaError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Index, Name
from pylogbroker.web.responsible_brokers import ask_all, controller_of
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pylogbroker.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from pylogbroker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    OngoingPartitionReassignment,
)

_Sizes = Mapping[tuple[str, int, int], int]
"""Bytes by topic, partition and broker."""


class ReassignmentRow(TypedDict):
    """`left` is what new replicas still have to copy, `total` all of it; None if no old replica is known."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    left: int | None
    total: int | None


class ReassignmentPage(Paged):
    left: int | None
    rows: list[ReassignmentRow]


class CanceledReassignment(TypedDict):
    topic: str
    partition: int


async def reassignment_page(visitor: Visitor, page: PageNumber = 1) -> ReassignmentPage:
    """Return the partitions that are being moved to other brokers."""
    topics = await _ongoing(visitor)
    sizes = await _sizes(visitor, topics) if topics else {}
    rows = [_row(topic.name, partition, sizes) for topic in topics for partition in topic.partitions]
    rows.sort(key=lambda row: (row["topic"], row["partition"]))
    values, shown = paged(page, "", rows)
    left = [row["left"] for row in rows]
    return {**values, "left": sum(filter(None, left)) if None not in left else None, "rows": [*shown]}


async def count_reassignments(visitor: Visitor) -> int | None:
    """Return how many partitions are being moved; None if the controller does not say."""
    try:
        return sum(len(topic.partitions) for topic in await _ongoing(visitor))
    except KafkaError:
        return None


async def _ongoing(visitor: Visitor) -> list[Any]:
    answer = await visitor.ask(ListPartitionReassignmentsRequest(topics=None), controller_of(visitor.services))
    raise_for(answer.error_code, answer.error_message)
    return list(answer.topics)


async def _sizes(visitor: Visitor, topics: list[Any]) -> _Sizes:
    over = visitor.services.runtime.slices.over
    named = [
        DescribableLogDirTopic(topic.name, [partition.partition_index for partition in topic.partitions])
        for topic in topics
    ]
    sizes = {}
    for broker_id, answer in (await ask_all(visitor, DescribeLogDirsRequest(named))).items():
        directories = () if answer is None else answer.results
        logs = (
            (topic.name, log) for directory in directories for topic in directory.topics for log in topic.partitions
        )
        async for name, log in over(logs):
            if not log.is_future_key:
                sizes[name, log.partition_index, broker_id] = log.partition_size
    return sizes


def _row(topic: str, partition: OngoingPartitionReassignment, sizes: _Sizes) -> ReassignmentRow:
    own = {broker: sizes.get((topic, partition.partition_index, broker)) for broker in partition.replicas}
    before = [broker for broker in partition.replicas if broker not in partition.adding_replicas]
    copied = [own.get(broker) or 0 for broker in partition.adding_replicas]
    size = max((size for size in map(own.get, before) if size is not None), default=None)
    return {
        "topic": topic,
        "partition": partition.partition_index,
        "replicas": before,
        "adding": partition.adding_replicas,
        "removing": partition.removing_replicas,
        "left": None if size is None else sum(max(0, size - done) for done in copied),
        "total": None if size is None else size * len(copied),
    }


async def cancel_reassignment(visitor: Visitor, topic: Name, partition: Index) -> CanceledReassignment:
    """Cancel the reassignment of a partition: it keeps the replicas that it had before."""
    named = ReassignableTopic(topic, [ReassignablePartition(partition, None)])
    request = AlterPartitionReassignmentsRequest(topics=[named])
    answer = await visitor.ask(request, controller_of(visitor.services))
    raise_for(answer.error_code, answer.error_message)
    for response in answer.responses:
        for result in response.partitions:
            raise_for(result.error_code, result.error_message)
    return {"topic": topic, "partition": partition}
