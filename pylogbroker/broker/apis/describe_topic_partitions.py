"""DescribeTopicPartitions (75): topics' partitions in pages (KIP-966).

Topics are sorted by name, partitions by number. The request and `max.request.partition.size.limit` bound a page;
`next_cursor` begins the next one. Without names every topic is described.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import attrs

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.replica_views import ReplicaViews
from pylogbroker.broker.security.rules import by_handler
from pylogbroker.broker.security.visibility import authorized_operations, may_see_topic
from pylogbroker.broker.services import HasConfig, HasMetadata, HasNode, HasPartitions
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import in_order, over
from pylogbroker.metadata.image import TopicImage
from pylogbroker.metadata.topic_names import name_problem
from pylogbroker.security.acls.bindings import AclResourceType
from pylogbroker.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


class _Services(HasConfig, HasMetadata, HasPartitions, HasNode, Protocol):
    """Services that this API uses."""


@serves(DescribeTopicPartitionsRequest, access=[by_handler])
async def handle(
    services: _Services, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    start = request.cursor or Cursor()
    if start.partition_index < 0:
        return await _error_response(services, request)
    limit = min(request.response_partition_limit, services.config.max_request_partition_size_limit)
    topics = {topic.name for topic in request.topics} or services.metadata.topics
    page = _Page(services, context, ReplicaViews.of(services, context), is_named=bool(request.topics))
    names = await in_order([name for name in topics if name >= start.topic_name])
    return await page.fill(names, start, max(limit, 1))


async def _error_response(
    services: _Services, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return an error for each topic: the response has no error field."""
    names = over(dict.fromkeys([topic.name for topic in request.topics]))
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)
            async for name in names
        ]
    )


@attrs.frozen
class _Page:
    """A page for one client. Of named topics, those that it may not see are errors; otherwise they are left out."""

    _services: _Services
    _context: RequestContext
    _views: ReplicaViews
    _is_named: bool

    async def fill(self, names: Iterator[str], start: Cursor, room: int) -> DescribeTopicPartitionsResponse:
        page, hidden = DescribeTopicPartitionsResponse(), []
        async for name in over(names):
            if not may_see_topic(self._context, name):
                hidden += [name] if self._is_named else []
                continue
            if not room:
                page.next_cursor = Cursor(name, 0)
                break
            first = start.partition_index if name == start.topic_name else 0
            described, more = self._describe(name, first, room)
            page.topics.append(described)
            if more:
                page.next_cursor = Cursor(name, described.partitions[-1].partition_index + 1)
                break
            room -= len(described.partitions)
        page.topics += [_hidden(name) for name in hidden]
        return page

    def _describe(self, name: str, first: int, room: int) -> tuple[DescribeTopicPartitionsResponseTopic, bool]:
        described = DescribeTopicPartitionsResponseTopic(
            name=name, topic_authorized_operations=authorized_operations(self._context, AclResourceType.TOPIC, name)
        )
        topic = self._services.metadata.topics.get(name)
        if topic is None:
            illegal = name_problem(name) is not None
            described.error_code = (
                ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            return described, False
        described.topic_id, described.is_internal = topic.id, topic.internal
        numbers = [number for number in topic.partitions if number >= first]
        described.partitions = [_partition(self._views, topic, number) for number in numbers[:room]]
        return described, len(numbers) > room


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


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
