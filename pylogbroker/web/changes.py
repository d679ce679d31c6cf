"""Changes of topics and records: each is a request of Kafka's protocol, so the same rights and limits hold."""

from __future__ import annotations

import random
from typing import Any, Final

from pylogbroker.broker.config_resources import ResourceType
from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.partition_hash import partition_of_key
from pylogbroker.records import Record, build
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.query import BadQuery, Query
from pylogbroker.web.routing import controller_of, leader_of
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

_PARTITIONS_MAX: Final = 2**31 - 1
_REPLICAS_MAX: Final = 2**15 - 1
_SET, _RESTORE = 0, 1
_ALL_IN_SYNC: Final = -1
_TIMEOUT_MS: Final = 10_000


async def create_topic(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Create a topic; without numbers, the broker's defaults hold."""
    partitions = query.count("partitions", -1, _PARTITIONS_MAX)
    replicas = query.count("replication_factor", -1, _REPLICAS_MAX)
    settings = [CreatableTopicConfig(*each) for each in query.pairs("settings", "=")]
    wanted = CreatableTopic(query.required("name").strip(), partitions, replicas, [], settings)
    [found] = (await visitor.ask(CreateTopicsRequest([wanted]), controller_of(visitor.services))).topics
    raise_for(found.error_code, found.error_message)
    return {"name": found.name, "id": str(found.topic_id)}


async def alter_topic(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Set one setting of a topic, or restore its default."""
    topic, setting = query.required("name"), query.required("setting").strip()
    change = (
        AlterableConfig(setting, _RESTORE, None)
        if query.flag("restore")
        else AlterableConfig(setting, _SET, query.required("value").strip())
    )
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.TOPIC, topic, [change])])
    [found] = (await visitor.ask(request)).responses
    raise_for(found.error_code, found.error_message)
    return {"name": topic, "setting": setting}


async def delete_topic(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Delete a topic, whose name is given twice."""
    name = query.required("name")
    if query.required("confirm").strip() != name:
        raise BadQuery("confirm must be the name of the topic, which is deleted with all its records")
    request = DeleteTopicsRequest([DeleteTopicState(name)])
    [found] = (await visitor.ask(request, controller_of(visitor.services))).responses
    raise_for(found.error_code, found.error_message)
    return {"name": name}


async def produce(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Write one record; without a partition, the key decides as for Kafka's clients, or without a key chance does."""
    topic = query.required("topic")
    key = query.given("key") or None
    value = None if query.flag("tombstone") else query.given("value")
    content = Record(
        0,
        visitor.services.runtime.now_ms(),
        None if key is None else key.encode(),
        None if value is None else value.encode(),
        tuple((name, text.encode()) for name, text in query.pairs("headers", ":")),
    )
    index = query.number("partition", None, _PARTITIONS_MAX)
    if index is None:
        index = _partition_of(visitor, topic, content.key)
    data = TopicProduceData(topic, [PartitionProduceData(index, build([content]))])
    leader = leader_of(visitor, topic, index)
    answer = await visitor.ask(ProduceRequest(None, _ALL_IN_SYNC, _TIMEOUT_MS, [data]), leader)
    [found] = answer.responses[0].partition_responses
    raise_for(found.error_code, found.error_message)
    return {"topic": topic, "partition": index, "offset": found.base_offset}


def _partition_of(visitor: Visitor, topic: str, key: bytes | None) -> int:
    visitor.check(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
    partitions = visitor.services.metadata.require_topic(topic).partitions
    if key is not None:
        return partition_of_key(key, len(partitions))
    led = [index for index, state in partitions.items() if state.leader != NO_LEADER]
    return random.choice(led or list(partitions))
