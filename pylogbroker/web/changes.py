"""Changes of topics and records: each is a request of Kafka's protocol, so the same rights and limits hold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Final, TypedDict

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.partition_hash import partition_of_key
from pylogbroker.records import Record, build
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.parameters import INT32_MAX, Name
from pylogbroker.web.responsible_brokers import controller_of, leader_of
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import Capped, Lines
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.resource_types import ResourceType

_REPLICAS_MAX: Final = 2**15 - 1
_SET, _RESTORE = 0, 1
_DEFAULT: Final = -1
_NONE: Final[Mapping[str, str]] = {}
_ALL_IN_SYNC: Final = -1
_TIMEOUT_MS: Final = 10_000


class PartlyDone(KafkaError):
    """Error of a change in several parts, of which some were made."""


@contextmanager
def after_others(done: int) -> Iterator[None]:
    """Raise PartlyDone in place of a KafkaError if other parts of a change were made."""
    try:
        yield
    except KafkaError as error:
        if not done:
            raise
        raise PartlyDone(f"{error.detail.rstrip('.')}; a part of the change was made", error.code) from None


class NamedTopic(TypedDict):
    name: str


class NewTopicRow(NamedTopic):
    id: str


class ChangedSetting(NamedTopic):
    setting: str


class ProducedRecord(TypedDict):
    topic: str
    partition: int
    offset: int


Settings = Annotated[Mapping[str, str | int | float | bool], Lines("="), "settings of the topic"]


async def create_topic(
    visitor: Visitor,
    name: Name,
    partitions: Annotated[int | None, Capped(INT32_MAX)] = None,
    replication_factor: Annotated[int | None, Capped(_REPLICAS_MAX)] = None,
    settings: Settings = _NONE,
) -> NewTopicRow:
    """Create a topic; without numbers, the broker's defaults hold."""
    rows = [CreatableTopicConfig(setting, written(value)) for setting, value in settings.items()]
    count, replicas = (_DEFAULT if pair is None else pair for pair in (partitions, replication_factor))
    topic = CreatableTopic(name, count, replicas, [], rows)
    created = await visitor.ask_one(CreateTopicsRequest([topic]), "topics", controller_of(visitor.services), name=name)
    if created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION:  # an existing topic with such a name is not there: 404
        raise BadRequest(created.error_message or f"{name} is no name of a topic", "name")
    raise_for(created.error_code, created.error_message)
    return {"name": created.name, "id": str(created.topic_id)}


def written(value: str | int | float | bool) -> str:
    """Return the text of a setting's value that JSON may have as a number or a boolean."""
    return value if isinstance(value, str) else str(value).lower()


async def set_setting(visitor: Visitor, name: Name, setting: Name, value: str | int | float | bool) -> ChangedSetting:
    """Set one setting of a topic."""
    return await _alter(visitor, name, AlterableConfig(setting, _SET, written(value).strip()))


async def restore_setting(visitor: Visitor, name: Name, setting: Name) -> ChangedSetting:
    """Let a topic have the default of a setting again."""
    return await _alter(visitor, name, AlterableConfig(setting, _RESTORE, None))


async def _alter(visitor: Visitor, topic: str, change: AlterableConfig) -> ChangedSetting:
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.TOPIC, topic, [change])])
    result = await visitor.ask_one(request, "responses", resource_name=topic)
    raise_for(result.error_code, result.error_message)
    return {"name": topic, "setting": change.name}


async def delete_topic(visitor: Visitor, name: Name) -> NamedTopic:
    """Delete a topic with all its records."""
    request = DeleteTopicsRequest([DeleteTopicState(name)])
    result = await visitor.ask_one(request, "responses", controller_of(visitor.services), name=name)
    raise_for(result.error_code, result.error_message)
    return {"name": name}


async def write_record(visitor: Visitor, topic: str, partition: int | None, record: Record) -> ProducedRecord:
    """Write one record to a partition, or to the one that its key decides."""
    index = _partition_of(visitor, topic, record.key) if partition is None else partition
    data = TopicProduceData(topic, [PartitionProduceData(index, build([record]))])
    leader = leader_of(visitor, topic, index)
    request = ProduceRequest(None, _ALL_IN_SYNC, _TIMEOUT_MS, [data])
    result = await visitor.ask_one(request, "responses.partition_responses", leader, index=index)
    raise_for(result.error_code, result.error_message)
    return {"topic": topic, "partition": index, "offset": result.base_offset}


def _partition_of(visitor: Visitor, topic: str, key: bytes | None) -> int:
    visitor.check(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
    partitions = visitor.services.metadata.require_topic(topic).partitions
    if key is not None:
        return partition_of_key(key, len(partitions))
    led = [index for index, state in partitions.items() if state.leader != NO_LEADER]
    return random.choice(led or list(partitions))
