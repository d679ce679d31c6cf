"""DescribeTopicPartitions (75): topics' partitions in pages (KIP-966).

Topics are sorted by name, partitions by number. The request and `max.request.partition.size.limit` bound a page;
`next_cursor` begins the next one. Without names every topic is described.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from heapq import merge
from typing import Final

from pylogbroker.broker.acl_operations import TOPIC_OPERATIONS
from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.replica_views import ReplicaViews
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import TopicImage
from pylogbroker.metadata.topic_names import name_problem
from pylogbroker.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_NAMES_PER_STEP: Final = 1000


@serves(DescribeTopicPartitionsRequest)
async def handle(
    services: Services, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    start = request.cursor or Cursor()
    if start.partition_index < 0:
        return await _error_response(services, request)
    limit = min(request.response_partition_limit, services.config.integer("max.request.partition.size.limit"))
    asked = {topic.name for topic in request.topics} or services.metadata.topics
    names = await services.runtime.slices.run(_sorted([name for name in asked if name >= start.topic_name]))
    return await _page(services, ReplicaViews.of(services, context), names, start, max(limit, 1))


async def _error_response(
    services: Services, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return an error for each topic: the response has no error field."""
    asked = services.runtime.slices.over(dict.fromkeys([topic.name for topic in request.topics]))
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)
            async for name in asked
        ]
    )


def _sorted(names: list[str]) -> Generator[None, None, Iterator[str]]:
    """Sort parts in steps; return their elements in order."""
    parts: list[list[str]] = []
    for start in range(0, len(names), _NAMES_PER_STEP):
        parts.append(sorted(names[start : start + _NAMES_PER_STEP]))
        yield
    return merge(*parts)


async def _page(
    services: Services, views: ReplicaViews, names: Iterator[str], start: Cursor, room: int
) -> DescribeTopicPartitionsResponse:
    page = DescribeTopicPartitionsResponse()
    async for name in services.runtime.slices.over(names):
        if not room:
            page.next_cursor = Cursor(name, 0)
            break
        first = start.partition_index if name == start.topic_name else 0
        described, more = _describe(services, views, name, first, room)
        page.topics.append(described)
        if more:
            page.next_cursor = Cursor(name, described.partitions[-1].partition_index + 1)
            break
        room -= len(described.partitions)
    return page


def _describe(
    services: Services, views: ReplicaViews, name: str, first: int, room: int
) -> tuple[DescribeTopicPartitionsResponseTopic, bool]:
    described = DescribeTopicPartitionsResponseTopic(name=name, topic_authorized_operations=TOPIC_OPERATIONS)
    topic = services.metadata.topics.get(name)
    if topic is None:
        illegal = name_problem(name) is not None
        described.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return described, False
    described.topic_id, described.is_internal = topic.id, topic.internal
    numbers = [number for number in topic.partitions if number >= first]
    described.partitions = [_partition(views, topic, number) for number in numbers[:room]]
    return described, len(numbers) > room


def _partition(views: ReplicaViews, topic: TopicImage, number: int) -> DescribeTopicPartitionsResponsePartition:
    state, shown = topic.partitions[number], views.show(topic, number)
    return DescribeTopicPartitionsResponsePartition(
        error_code=shown.error,
        partition_index=number,
        leader_id=shown.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=shown.offline,
    )
