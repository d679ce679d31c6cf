"""Partitions that a request names, by topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Protocol, TypeVar

from pylogbroker.broker.services import HasMetadata
from pylogbroker.coordinators import TopicPartition
from pylogbroker.long_loops import STEP_ITEMS, give_way


class PartitionInRequest(Protocol):
    @property
    def partition_index(self) -> int: ...


_partitions = attrgetter("partitions")
P = TypeVar("P", bound=PartitionInRequest)
P_co = TypeVar("P_co", bound=PartitionInRequest, covariant=True)
R = TypeVar("R")


class TopicInRequest(Protocol[P_co]):
    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> Sequence[P_co]: ...


class WithPartitions(Protocol):
    @property
    def partitions(self) -> Sequence[object]: ...


def count_elements(topics: Sequence[WithPartitions]) -> int:
    """Return the number of topics and partitions."""
    return len(topics) + sum(map(len, map(_partitions, topics)))


async def existing_partitions(
    services: HasMetadata, topics: Sequence[TopicInRequest[P]], make: Callable[[P], R]
) -> dict[TopicPartition, R]:
    """Return `make` of each existing partition; give way between steps."""
    by_partition: dict[TopicPartition, R] = {}
    for requested in topics:
        topic = services.metadata.topics.get(requested.name)
        for number, partition in enumerate(requested.partitions):
            if number % STEP_ITEMS == 0:
                await give_way()
            if topic is not None and partition.partition_index in topic.partitions:
                by_partition[requested.name, partition.partition_index] = make(partition)
    return by_partition
