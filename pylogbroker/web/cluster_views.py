"""Topics and brokers, as this broker knows them."""

from __future__ import annotations

from typing import TypedDict

from pylogbroker.broker.services import Services
from pylogbroker.config import describe_topic
from pylogbroker.metadata.image import NO_CONTROLLER, PartitionState, TopicImage
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.log_directory_views import LogDirectoryRow, log_directories
from pylogbroker.web.parameters import ROWS_MAX, Count, Name, Search, Start
from pylogbroker.web.placement import count_placement
from pylogbroker.web.quorum_views import QuorumView, quorum
from pylogbroker.web.rows import RowRange
from pylogbroker.web.topic_sizes import size_here
from pylogbroker.web.visitors import Visitor


class TopicRow(TypedDict):
    name: str
    is_internal: bool
    partitions: int
    partitions_here: int
    replication_factor: int
    bytes: int
    offsets: int
    messages_in: int
    bytes_in: int
    bytes_out: int
    messages_in_per_second: float | None
    bytes_in_per_second: float | None
    bytes_out_per_second: float | None


class TopicList(RowRange):
    search: str
    topics: list[TopicRow]


class PartitionRow(TypedDict):
    partition: int
    leader: int
    replicas: list[int]
    in_sync: list[int]
    bytes: int | None
    log_start_offset: int | None
    high_watermark: int | None


class SettingRow(TypedDict):
    name: str
    value: str | None
    source: str
    default: str | None
    documentation: str


class TopicDetails(TopicRow, RowRange):
    id: str
    details: list[PartitionRow]
    settings: list[SettingRow] | None


class ListenerRow(TypedDict):
    name: str
    address: str
    protocol: str


class BrokerRow(TypedDict):
    id: int
    rack: str | None
    leaders: int
    replicas: int
    listeners: list[ListenerRow]


class BrokerList(TypedDict):
    """`controller` may be a KRaft controller, which is no broker; `quorum` is null of other clusters."""

    cluster_id: str
    this_broker: int
    controller: int
    brokers: list[BrokerRow]
    log_directories: list[LogDirectoryRow]
    unanswered: list[int]
    quorum: QuorumView | None


async def topics(visitor: Visitor, search: Search = "", start: Start = 0, count: Count = ROWS_MAX) -> TopicList:
    """Return topics by name, from the `start`th on, of those whose names contain `search`."""
    services = visitor.services
    total, shown = 0, list[TopicImage]()
    async for topic in services.runtime.slices.over(services.metadata.topics.values()):
        if search in topic.name and visitor.sees_topic(topic.name):
            if start <= total < start + count:
                shown.append(topic)
            total += 1
    rows = [await topic_row(visitor, topic) for topic in shown]
    return {"search": search, "start": start, "count": count, "total": total, "topics": rows}


async def topic_row(visitor: Visitor, topic: TopicImage) -> TopicRow:
    services = visitor.services
    size = await size_here(services, topic)
    traffic = services.partitions.traffic.topics.get(topic.name)
    rates = visitor.samples.topic_rates.of(services, topic.name)
    return {
        "name": topic.name,
        "is_internal": topic.internal,
        "partitions": len(topic.partitions),
        "partitions_here": size.partitions,
        "replication_factor": topic.replication_factor,
        "bytes": size.bytes,
        "offsets": size.records,
        "messages_in": 0 if traffic is None else traffic.messages_in,
        "bytes_in": 0 if traffic is None else traffic.bytes_in,
        "bytes_out": 0 if traffic is None else traffic.bytes_out,
        "messages_in_per_second": None if rates is None else rates.messages_in,
        "bytes_in_per_second": None if rates is None else rates.bytes_in,
        "bytes_out_per_second": None if rates is None else rates.bytes_out,
    }


async def topic(visitor: Visitor, name: Name, start: Start = 0, count: Count = ROWS_MAX) -> TopicDetails:
    """Return a topic, its partitions from the `start`th on, and its settings.

    The default of a setting is its value in topics without their own. The settings are null for a visitor who may not
    see them.
    """
    services = visitor.services
    visitor.check(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
    image = services.metadata.require_topic(name)
    numbers = sorted(image.partitions)[start : start + count]
    sees_settings = visitor.allows(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, name)
    return {
        **await topic_row(visitor, image),
        "id": str(image.id),
        "start": start,
        "count": count,
        "total": len(image.partitions),
        "details": [_partition_row(services, image.name, number, image.partitions[number]) for number in numbers],
        "settings": _settings(services, image) if sees_settings else None,
    }


def _settings(services: Services, topic: TopicImage) -> list[SettingRow]:
    inherited = {setting.name: setting.value for setting in describe_topic(services.config, services.config.topic({}))}
    settings = services.config.topic(services.metadata.topic_settings(topic.name))
    return [
        {
            "name": setting.name,
            "value": setting.value,
            "source": setting.source.name,
            "default": inherited[setting.name],
            "documentation": setting.documentation,
        }
        for setting in describe_topic(services.config, settings)
    ]


def _partition_row(services: Services, topic: str, index: int, state: PartitionState) -> PartitionRow:
    row: PartitionRow = {
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
        row["bytes"] = log.size
        row["log_start_offset"], row["high_watermark"] = log.log_start_offset, log.high_watermark
    return row


async def brokers(visitor: Visitor) -> BrokerList:
    """Return the brokers of the cluster, and their log directories."""
    return await cluster(visitor, with_logs=True)


async def cluster(visitor: Visitor, with_logs: bool) -> BrokerList:
    """Return the brokers, and their log directories, whose logs count as none without `with_logs`."""
    visitor.check(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    services = visitor.services
    image = services.metadata.image
    placement = await count_placement(services)
    controllers = await quorum(visitor)
    directories, unanswered = await log_directories(visitor, with_logs)
    return {
        "cluster_id": services.node.cluster_id,
        "this_broker": services.node.id,
        "controller": image.controller_id if controllers is None else _active(controllers),
        "brokers": [
            {
                "id": broker.id,
                "rack": broker.rack,
                "leaders": placement.leaders[broker.id],
                "replicas": placement.replicas[broker.id],
                "listeners": [
                    {"name": name, "address": f"{listener.host}:{listener.port}", "protocol": listener.protocol}
                    for name, listener in broker.listeners.items()
                ],
            }
            for broker in image.brokers.values()
        ],
        "log_directories": directories,
        "unanswered": unanswered,
        "quorum": controllers,
    }


def _active(controllers: QuorumView) -> int:
    return NO_CONTROLLER if controllers["leader"] is None else controllers["leader"]
