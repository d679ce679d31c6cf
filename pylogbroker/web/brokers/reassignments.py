"""Reassignments in progress, with what their new replicas still have to copy; and the form that cancels one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeout

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

_COUNT_SECONDS_MAX: Final = 3.0


@attrs.frozen
class ReplicaSizes:
    """Bytes of replicas by topic, partition and broker, and the brokers that have answered."""

    sizes: Mapping[tuple[str, int, int], int]
    answered: frozenset[int]

    def size(self, topic: str, partition: int, broker: int) -> int | None:
        """Return 0 for a replica that a broker does not have, and None if the broker has not answered."""
        return self.sizes.get((topic, partition, broker), 0 if broker in self.answered else None)


class ReassignmentRow(TypedDict):
    """`left` is what new replicas still have to copy, `total` all of it.

    Both are None if a new replica's broker does not answer, or no old one's.
    """

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
    slices, topics = visitor.services.runtime.slices, await _ongoing(visitor)
    sizes = await _sizes(visitor, topics) if topics else ReplicaSizes({}, frozenset())
    partitions = slices.over((topic.name, partition) for topic in topics for partition in topic.partitions)
    rows = [_row(name, partition, sizes) async for name, partition in partitions]
    ordered = await slices.in_order(rows, key=lambda row: (row["topic"], row["partition"]))
    values, shown = paged(page, "", ordered)
    left = [row["left"] async for row in slices.over(ordered)]
    return {**values, "left": sum(filter(None, left)) if None not in left else None, "rows": [*shown]}


async def count_reassignments(visitor: Visitor) -> int | None:
    """Return how many partitions are being moved; None if the controller does not say so within seconds."""
    ongoing = Deferred.fromCoroutine(_ongoing(visitor))
    ongoing.addTimeout(_COUNT_SECONDS_MAX, visitor.services.runtime.clock)
    try:
        return sum(len(topic.partitions) for topic in await ongoing)
    except (KafkaError, DeferredTimeout):
        return None


async def _ongoing(visitor: Visitor) -> list[Any]:
    answer = await visitor.ask(ListPartitionReassignmentsRequest(topics=None), controller_of(visitor.services))
    raise_for(answer.error_code, answer.error_message)
    return list(answer.topics)


async def _sizes(visitor: Visitor, topics: list[Any]) -> ReplicaSizes:
    over = visitor.services.runtime.slices.over
    named = [
        DescribableLogDirTopic(topic.name, [partition.partition_index for partition in topic.partitions])
        for topic in topics
    ]
    sizes: dict[tuple[str, int, int], int] = {}
    answers = await ask_all(visitor, DescribeLogDirsRequest(named))
    for broker_id, answer in answers.items():
        directories = () if answer is None else answer.results
        logs = (
            (topic.name, log) for directory in directories for topic in directory.topics for log in topic.partitions
        )
        async for name, log in over(logs):
            if not log.is_future_key:
                sizes[name, log.partition_index, broker_id] = log.partition_size
    return ReplicaSizes(sizes, frozenset(broker for broker, answer in answers.items() if answer is not None))


def _row(topic: str, partition: OngoingPartitionReassignment, sizes: ReplicaSizes) -> ReassignmentRow:
    before = [broker for broker in partition.replicas if broker not in partition.adding_replicas]
    old, new = (
        [sizes.size(topic, partition.partition_index, broker) for broker in brokers]
        for brokers in (before, partition.adding_replicas)
    )
    copied = [size for size in new if size is not None]
    size = max((size for size in old if size is not None), default=None) if len(copied) == len(new) else None
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
    controller = controller_of(visitor.services)
    result = await visitor.ask_one(request, "responses.partitions", controller, partition_index=partition)
    raise_for(result.error_code, result.error_message)
    return {"topic": topic, "partition": partition}
