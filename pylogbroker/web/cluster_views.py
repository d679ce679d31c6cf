"""Topics and brokers, as this broker knows them."""

from __future__ import annotations

from typing import Any

from pylogbroker.broker.services import Services
from pylogbroker.config import describe_topic
from pylogbroker.metadata.image import PartitionState, TopicImage
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.log_directory_views import log_directories
from pylogbroker.web.query import Query
from pylogbroker.web.rows import ROWS_MAX
from pylogbroker.web.visitors import Visitor


async def topics(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return topics by name, from the `start`th on, of those whose names contain `search`."""
    services = visitor.services
    search, start, count = query.text("search"), query.count("start", 0), query.count("count", ROWS_MAX, ROWS_MAX)
    total, shown = 0, list[TopicImage]()
    async for topic in services.runtime.slices.over(services.metadata.topics.values()):
        if search in topic.name and visitor.sees_topic(topic.name):
            if start <= total < start + count:
                shown.append(topic)
            total += 1
    rows = [await _topic_row(visitor, topic) for topic in shown]
    return {"search": search, "start": start, "count": count, "total": total, "topics": rows}


async def _topic_row(visitor: Visitor, topic: TopicImage) -> dict[str, Any]:
    services = visitor.services
    size = records = here = 0
    async for index in services.runtime.slices.over(topic.partitions):
        partition = services.partitions.hosted.get((topic.name, index))
        if partition is not None:
            here += 1
            size += partition.log.size
            records += partition.log.high_watermark - partition.log.log_start_offset
    traffic = services.partitions.traffic.topics.get(topic.name)
    rates = visitor.samples.topic_rates.of(services, topic.name)
    return {
        "name": topic.name,
        "is_internal": topic.internal,
        "partitions": len(topic.partitions),
        "partitions_here": here,
        "replication_factor": topic.replication_factor,
        "bytes": size,
        "offsets": records,
        "messages_in": 0 if traffic is None else traffic.messages_in,
        "bytes_in": 0 if traffic is None else traffic.bytes_in,
        "bytes_out": 0 if traffic is None else traffic.bytes_out,
        "messages_in_per_second": None if rates is None else rates.messages_in,
        "bytes_in_per_second": None if rates is None else rates.bytes_in,
        "bytes_out_per_second": None if rates is None else rates.bytes_out,
    }


async def topic(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return a topic, its partitions from the `start`th on, and its settings.

    The default of a setting is its value in topics without their own. The settings are null for a visitor who may not
    see them.
    """
    services, name = visitor.services, query.required("name")
    visitor.check(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
    found = services.metadata.require_topic(name)
    start, count = query.count("start", 0), query.count("count", ROWS_MAX, ROWS_MAX)
    numbers = sorted(found.partitions)[start : start + count]
    sees_settings = visitor.allows(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, name)
    return {
        **await _topic_row(visitor, found),
        "id": str(found.id),
        "start": start,
        "count": count,
        "total": len(found.partitions),
        "details": [_partition_row(services, found.name, each, found.partitions[each]) for each in numbers],
        "settings": _settings(services, found) if sees_settings else None,
    }


def _settings(services: Services, topic: TopicImage) -> list[dict[str, Any]]:
    inherited = {each.name: each.value for each in describe_topic(services.config, services.config.topic({}))}
    settings = services.config.topic(services.metadata.topic_settings(topic.name))
    return [
        {
            "name": each.name,
            "value": each.value,
            "source": each.source.name,
            "default": inherited[each.name],
            "documentation": each.documentation,
        }
        for each in describe_topic(services.config, settings)
    ]


def _partition_row(services: Services, topic: str, index: int, state: PartitionState) -> dict[str, Any]:
    row: dict[str, Any] = {
        "partition": index,
        "leader": state.leader,
        "replicas": list(state.replicas),
        "in_sync": list(state.isr),
        "bytes": None,
        "log_start_offset": None,
        "high_watermark": None,
    }
    hosted = services.partitions.hosted.get((topic, index))
    if hosted is not None:
        log = hosted.log
        row |= {"bytes": log.size, "log_start_offset": log.log_start_offset, "high_watermark": log.high_watermark}
    return row


async def brokers(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return the brokers of the cluster, and their log directories."""
    visitor.check(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    services = visitor.services
    image = services.metadata.image
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    states = (state for topic in image.topics.values() for state in topic.partitions.values())
    async for state in services.runtime.slices.over(states):
        leaders[state.leader] = leaders.get(state.leader, 0) + 1
        for each in state.replicas:
            replicas[each] = replicas.get(each, 0) + 1
    directories, unanswered = await log_directories(visitor)
    return {
        "cluster_id": services.node.cluster_id,
        "this_broker": services.node.id,
        "controller": image.controller_id,
        "brokers": [
            {
                "id": each.id,
                "rack": each.rack,
                "leaders": leaders.get(each.id, 0),
                "replicas": replicas.get(each.id, 0),
                "listeners": [
                    {"name": name, "address": f"{listener.host}:{listener.port}", "protocol": listener.protocol}
                    for name, listener in each.listeners.items()
                ],
            }
            for each in image.brokers.values()
        ],
        "log_directories": directories,
        "unanswered": unanswered,
    }
