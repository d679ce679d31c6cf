"""Metadata (3): the brokers, topics, and leaders of partitions.

A missing topic gets UNKNOWN_TOPIC_OR_PARTITION in every version, as in Kafka 3.9, even if the request starts its
creation.
"""

from __future__ import annotations

from pylogbroker.broker.acl_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.limits import PartitionAllowance
from pylogbroker.broker.replica_views import ReplicaViews
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import TopicImage
from pylogbroker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pylogbroker.wire.schema import NO_ID

_FIRST_WITH_NULL = 1
_FIRST_WITH_ALL_REPLICAS = 1
_FIRST_WITH_CREATION_ASKED = 4
_FIRST_WITH_LISTENER_ERROR = 6
_FIRST_WITH_IDS_ALONE = 12


@serves(MetadataRequest, is_read=True)
async def handle(services: Services, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    wanted = _all_or(request.topics, context.api_version)
    views = ReplicaViews.of(services, context)
    if wanted is None:
        topics = await services.runtime.slices.each(
            tuple(services.metadata.topics.values()),
            lambda topic: topic.partitions,
            lambda topic, index: _partition(views, topic, index, context.api_version),
            lambda topic, partitions: _describe(topic, partitions, request),
        )
    else:
        may_create = request.allow_auto_topic_creation or context.api_version < _FIRST_WITH_CREATION_ASKED
        allowance = PartitionAllowance() if may_create else None
        slices = services.runtime.slices
        distinct = {(topic.name, topic.topic_id): topic async for topic in slices.over(wanted)}
        asked = slices.over(distinct.values())
        topics = [await _find(services, context, request, topic, allowance, views) async for topic in asked]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(broker.id, broker.host, broker.port, broker.rack)
            for broker in services.node.live_brokers(services.metadata.image, context)
        ],
        cluster_id=services.node.cluster_id,
        controller_id=services.metadata.image.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _all_or(topics: list[MetadataRequestTopic] | None, version: int) -> list[MetadataRequestTopic] | None:
    return topics if topics or version >= _FIRST_WITH_NULL else None


async def _find(
    services: Services,
    context: RequestContext,
    request: MetadataRequest,
    wanted: MetadataRequestTopic,
    allowance: PartitionAllowance | None,
    views: ReplicaViews,
) -> MetadataResponseTopic:
    try:
        topic = _find_topic(services, context, wanted, allowance)
    except KafkaError as error:
        return MetadataResponseTopic(
            error.code,
            wanted.name if wanted.name is not None or context.api_version >= _FIRST_WITH_IDS_ALONE else "",
            wanted.topic_id,
        )
    indexes, version = services.runtime.slices.over(topic.partitions), context.api_version
    partitions = [_partition(views, topic, index, version) async for index in indexes]
    return _describe(topic, partitions, request)


def _find_topic(
    services: Services, context: RequestContext, wanted: MetadataRequestTopic, allowance: PartitionAllowance | None
) -> TopicImage:
    if wanted.topic_id != NO_ID:
        if context.api_version < _FIRST_WITH_IDS_ALONE:
            raise KafkaError("topics are asked for by id from version 12 on", ErrorCode.INVALID_REQUEST)
        return services.metadata.require_topic(wanted.topic_id)
    if wanted.name is None:
        raise KafkaError("a topic is asked for by neither name nor id", ErrorCode.INVALID_REQUEST)
    return services.auto_creation.find(wanted.name, allowance)


def _describe(
    topic: TopicImage, partitions: list[MetadataResponsePartition], request: MetadataRequest
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.id,
        topic.internal,
        partitions,
        TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED,
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
