"""Topics: list, describe, create, delete, add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import Router, deferred, outcome
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from pylogbroker.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from pylogbroker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

_NAMES_VERSION_MAX = 5  # of DeleteTopics: the last with names alone
_REPLICATION_FACTOR_MAX: Final = (1 << 15) - 1
_EXAMPLE: Final = "NewTopic('orders', partitions=3)"


@attrs.frozen
class NewTopic:
    """Topic to create. -1 means the broker's default; `assignments` has the replicas of each partition."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = attrs.field(factory=dict)
    configs: Mapping[str, str | int | float | None] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        arguments.name("name", self.name)
        arguments.number("partitions", self.partitions, -1)
        arguments.number("replication_factor", self.replication_factor, -1, _REPLICATION_FACTOR_MAX)
        for partition, brokers in arguments.by_key("assignments", self.assignments, "{0: [1, 2]}").items():
            arguments.number("assignments", partition)
            arguments.broker_ids("assignments", brokers)
        arguments.setting_texts("configs", self.configs)


@attrs.frozen
class CreatedTopic:
    """Topic as created; the counts are -1 where the broker does not return them."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


@attrs.frozen
class TopicListing:
    name: str
    topic_id: UUID
    is_internal: bool


@attrs.frozen
class PartitionDescription:
    """`leader` is None while there is none."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@attrs.frozen
class TopicDescription:
    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


@attrs.frozen(eq=False, repr=False)
class TopicAdmin:
    _router: Router

    @deferred
    async def list(self, *, include_internal: bool = False) -> Sequence[TopicListing]:
        """Return all topics, sorted by name."""
        topics = [
            TopicListing(topic.name or "", topic.topic_id, topic.is_internal)
            for topic in (await self._metadata(None)).topics
        ]
        return sorted((topic for topic in topics if include_internal or not topic.is_internal), key=lambda it: it.name)

    @deferred
    async def describe(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Return topics by name; no topic is created."""

        def read(response: MetadataResponse) -> Iterator[tuple[str, TopicDescription | KafkaError]]:
            for topic in response.topics:
                name = topic.name or ""
                yield name, outcome(f"topic {name}", topic.error_code, None, _description(topic))

        return await self._router.ask_any(arguments.names("names", names), _metadata_request, read)

    @deferred
    async def create(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> dict[str, CreatedTopic]:
        """Create topics, or only check whether that would succeed."""
        by_name = {topic.name: topic for topic in arguments.instances("topics", topics, NewTopic, _EXAMPLE)}

        def make(names: Iterable[str]) -> CreateTopicsRequest:
            creatable = [_creatable(by_name[name]) for name in names]
            return CreateTopicsRequest(creatable, self._router.timeout_ms, validate_only)

        def read(response: CreateTopicsResponse) -> Iterator[tuple[str, CreatedTopic | KafkaError]]:
            for topic in response.topics:
                yield topic.name, outcome(f"topic {topic.name}", topic.error_code, topic.error_message, _created(topic))

        return await self._router.ask(self._router.controller(), by_name, make, read)

    @deferred
    async def delete(self, names: Iterable[str]) -> None:
        """Delete topics and their records."""

        def make(batch: Sequence[str]) -> DeleteTopicsRequest:
            return DeleteTopicsRequest(topic_names=[*batch], timeout_ms=self._router.timeout_ms)

        def read(response: DeleteTopicsResponse) -> Iterator[tuple[str, KafkaError | None]]:
            for result in response.responses:
                name = result.name or ""
                yield name, outcome(f"topic {name}", result.error_code, result.error_message, None)

        route = self._router.controller()
        await self._router.ask(route, arguments.names("names", names), make, read, newest=_NAMES_VERSION_MAX)

    @deferred
    async def add_partitions(
        self,
        totals: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise topics' numbers of partitions to these totals; `assignments` has the replicas of each new partition."""
        for total in arguments.by_key("totals", totals, "{'orders': 6}").values():
            arguments.number("totals", total)
        placed = {} if assignments is None else arguments.by_key("assignments", assignments, "{'orders': [[1, 2]]}")
        for replicas in placed.values():
            for brokers in replicas:
                arguments.broker_ids("assignments", brokers)

        def make(names: Iterable[str]) -> CreatePartitionsRequest:
            topics = [CreatePartitionsTopic(name, totals[name], _new_replicas(placed.get(name))) for name in names]
            return CreatePartitionsRequest(topics, self._router.timeout_ms, validate_only)

        def read(response: CreatePartitionsResponse) -> Iterator[tuple[str, KafkaError | None]]:
            for result in response.results:
                yield result.name, outcome(f"topic {result.name}", result.error_code, result.error_message, None)

        await self._router.ask(self._router.controller(), arguments.names("totals", totals), make, read)

    async def _metadata(self, names: Sequence[str] | None) -> MetadataResponse:
        response: MetadataResponse = await self._router.anywhere(_metadata_request(names))
        return response


def _metadata_request(names: Sequence[str] | None) -> MetadataRequest:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics, allow_auto_topic_creation=False)


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition, [*brokers]) for partition, brokers in topic.assignments.items()
    ]
    texts = arguments.setting_texts("configs", topic.configs)
    configs = [CreatableTopicConfig(name, value) for name, value in texts.items()]
    return CreatableTopic(topic.name, topic.partitions, topic.replication_factor, assignments, configs)


def _created(result: CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(result.name, result.topic_id, result.num_partitions, result.replication_factor)


def _new_replicas(replicas: Sequence[Sequence[int]] | None) -> list[CreatePartitionsAssignment] | None:
    return None if replicas is None else [CreatePartitionsAssignment([*brokers]) for brokers in replicas]


def _description(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = [
        PartitionDescription(
            partition.partition_index,
            None if partition.leader_id < 0 else partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
        )
        for partition in sorted(topic.partitions, key=lambda it: it.partition_index)
    ]
    return TopicDescription(topic.name or "", topic.topic_id, topic.is_internal, tuple(partitions))
