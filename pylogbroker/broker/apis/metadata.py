"""Metadata (3): the brokers, topics, and leaders of partitions.

A missing topic gets UNKNOWN_TOPIC_OR_PARTITION in every version, as in Kafka 3.9, even if the request starts its
creation.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol
from uuid import UUID

import attrs

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import PartitionAllowance
from pylogbroker.broker.requests.replica_views import ReplicaViews
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import Decision, Later, Narrowed, with_fields
from pylogbroker.broker.security.visibility import (
    authorized_operations,
    cluster_operations,
    may_create_topic,
    may_see_topic,
)
from pylogbroker.broker.services import HasAutoCreation, HasConfig, HasMetadata, HasNode, HasPartitions
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import mapped, over
from pylogbroker.metadata.image import ClusterImage, TopicImage
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pylogbroker.wire.schema import NO_ID, NOT_ASKED

_FIRST_WITH_NULL = 1
_FIRST_WITH_ALL_REPLICAS = 1
_FIRST_WITH_CREATION_ASKED = 4
_FIRST_WITH_LISTENER_ERROR = 6
_FIRST_WITH_IDS_ALONE = 12


class _Services(HasConfig, HasMetadata, HasPartitions, HasNode, HasAutoCreation, Protocol):
    """Services that this API uses."""


def _narrow(services: _Services, context: RequestContext, request: MetadataRequest) -> Decision | Later[Decision]:
    """Answer named topics as denied that the client may not see, or not create. A list of all leaves them out."""
    topics = _all_or(request.topics, context.api_version)
    if topics is None:
        return None
    return _narrow_topics(_AccessQuery.of(services, context, request), request, topics)


async def _narrow_topics(query: _AccessQuery, request: MetadataRequest, topics: list[MetadataRequestTopic]) -> Decision:
    denials = await mapped(query.rejected, topics)
    left = [topic for topic, denied in zip(topics, denials, strict=True) if denied is None]
    rejected = [denied for denied in denials if denied is not None]
    if not rejected:
        return None

    def complete(response: MetadataResponse) -> MetadataResponse:
        response.topics = (response.topics if left else []) + rejected
        return response

    return Narrowed(with_fields(request, topics=left), complete)


@attrs.frozen
class _AccessQuery:
    _access: Access
    _image: ClusterImage
    _creates: bool
    """A topic that does not exist would be created."""

    @classmethod
    def of(cls, services: _Services, context: RequestContext, request: MetadataRequest) -> _AccessQuery:
        is_enabled = services.config.auto_create_topics_enable
        creates = is_enabled and _asks_for_creation(request, context.api_version)
        return cls(context.required_access, services.metadata.image, creates)

    def rejected(self, topic: MetadataRequestTopic) -> MetadataResponseTopic | None:
        """Return the answer about a topic that the client may not see or create, or None."""
        access, topics = self._access, self._image
        if topic.topic_id != NO_ID:
            existing = topics.topic_by_id(topic.topic_id)
            if existing is None or access.allows_on_topic(AclOperation.DESCRIBE, existing.name):
                return None
            return _denied(None, topic.topic_id)
        name = topic.name
        if name is None:
            return None
        if not access.allows_on_topic(AclOperation.DESCRIBE, name):
            return _denied(name, NO_ID)
        if name not in topics.topics and self._creates and not may_create_topic(access, name):
            return _denied(name, NO_ID, name in INTERNAL_TOPICS)
        return None


def _denied(name: str | None, topic_id: UUID, is_internal: bool = False) -> MetadataResponseTopic:
    return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, topic_id, is_internal)


def _asks_for_creation(request: MetadataRequest, version: int) -> bool:
    return request.allow_auto_topic_creation or version < _FIRST_WITH_CREATION_ASKED


def _operations(context: RequestContext, request: MetadataRequest, topic: str) -> int:
    asks = request.include_topic_authorized_operations
    return authorized_operations(context, AclResourceType.TOPIC, topic) if asks else NOT_ASKED


@serves(MetadataRequest, access=[_narrow], is_read=True)
async def handle(services: _Services, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    requested = _all_or(request.topics, context.api_version)
    views = ReplicaViews.of(services, context)
    if requested is None:
        visible = await _visible_topics(services, context)
        topics = [await _describe(context, topic, views, request) async for topic in over(visible)]
    else:
        allowance = PartitionAllowance() if _asks_for_creation(request, context.api_version) else None
        distinct = {(topic.name, topic.topic_id): topic async for topic in over(requested)}
        named = over(distinct.values())
        topics = [await _find(services, context, request, topic, allowance, views) async for topic in named]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(broker.id, broker.host, broker.port, broker.rack)
            for broker in services.node.live_brokers(services.metadata.image, context)
        ],
        cluster_id=services.node.cluster_id,
        controller_id=services.metadata.image.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


async def _visible_topics(services: _Services, context: RequestContext) -> list[TopicImage]:
    topics = list(services.metadata.topics.values())
    if context.access is None:
        return topics
    return [topic async for topic in over(topics) if may_see_topic(context, topic.name)]


def _all_or(topics: list[MetadataRequestTopic] | None, version: int) -> list[MetadataRequestTopic] | None:
    return topics if topics or version >= _FIRST_WITH_NULL else None


async def _find(
    services: _Services,
    context: RequestContext,
    request: MetadataRequest,
    requested: MetadataRequestTopic,
    allowance: PartitionAllowance | None,
    views: ReplicaViews,
) -> MetadataResponseTopic:
    try:
        topic = _find_topic(services, context, requested, allowance)
    except KafkaError as error:
        return MetadataResponseTopic(
            error.code,
            requested.name if requested.name is not None or context.api_version >= _FIRST_WITH_IDS_ALONE else "",
            requested.topic_id,
        )
    return await _describe(context, topic, views, request)


def _find_topic(
    services: _Services, context: RequestContext, requested: MetadataRequestTopic, allowance: PartitionAllowance | None
) -> TopicImage:
    if requested.topic_id != NO_ID:
        if context.api_version < _FIRST_WITH_IDS_ALONE:
            raise KafkaError("topics are asked for by id from version 12 on", ErrorCode.INVALID_REQUEST)
        return services.metadata.require_topic(requested.topic_id)
    if requested.name is None:
        raise KafkaError("a topic is asked for by neither name nor id", ErrorCode.INVALID_REQUEST)
    return services.auto_creation.find(requested.name, allowance)


async def _describe(
    context: RequestContext, topic: TopicImage, views: ReplicaViews, request: MetadataRequest
) -> MetadataResponseTopic:
    partitions = await mapped(partial(_partition, views, topic, version=context.api_version), topic.partitions)
    return MetadataResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.id,
        topic.internal,
        partitions,
        _operations(context, request, topic.name),
    )


def _partition(views: ReplicaViews, topic: TopicImage, index: int, version: int) -> MetadataResponsePartition:
    state, shown = topic.partitions[index], views.show(topic, index)
    error, replicas, isr = shown.error, list(state.replicas), list(state.isr)
    if error is ErrorCode.LISTENER_NOT_FOUND and version < _FIRST_WITH_LISTENER_ERROR:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    if version < _FIRST_WITH_ALL_REPLICAS:
        replicas, isr = views.only_reached(replicas), views.only_reached(isr)
        if error is ErrorCode.NONE and (len(replicas) < len(state.replicas) or len(isr) < len(state.isr)):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(error, index, shown.leader, state.leader_epoch, replicas, isr, shown.offline)
