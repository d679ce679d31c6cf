"""Cached metadata of brokers and topics, merged from Metadata responses.

brokers    replaced by each response
topics     merged by name; a partition with an older leader epoch is ignored
leaders    by topic and partition, for the hot path
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.formatting import counted
from pylogbroker.rpc.errors import error_of
from pylogbroker.rpc.settings import Address
from pylogbroker.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

#: Errors of a topic that leave its cached metadata valid.
_TRANSIENT: Final = {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND}
_PARTITIONS_AT_ONCE: Final = 500


@attrs.frozen
class PartitionInfo:
    """A `leader` of -1 means none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@attrs.frozen
class TopicInfo:
    name: str
    topic_id: UUID
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool = False


@attrs.define
class MetadataCache:
    brokers: dict[int, Address] = attrs.field(factory=dict)
    racks: dict[int, str | None] = attrs.field(factory=dict)
    topics: dict[str, TopicInfo] = attrs.field(factory=dict)
    errors: dict[str, KafkaError] = attrs.field(factory=dict)  # of topics rejected by the last response
    leaders: dict[tuple[str, int], int] = attrs.field(factory=dict)
    cluster_id: str | None = None
    controller_id: int = -1
    changes: int = 0
    """Grows with each response and each loss of something known."""

    def learn(self, response: MetadataResponse, names: Iterable[str] | None) -> None:
        """Merge a response about the requested topics (None: all); remove absent ones."""
        for _ in self.learn_in_parts(response, names):
            pass

    def learn_in_parts(self, response: MetadataResponse, names: Iterable[str] | None) -> Iterator[None]:
        """Merge a response as `learn` does; yield after some hundred partitions."""
        self.learn_brokers(response)
        given = {topic.name: topic for topic in response.topics if topic.name is not None}
        partitions = 0
        for name, topic in given.items():
            self._learn_topic(name, topic)
            partitions += len(topic.partitions)
            if partitions >= _PARTITIONS_AT_ONCE:
                partitions = 0
                yield
        for name in set(self.topics if names is None else names) - given.keys():
            self._forget(name, error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}"))

    def learn_brokers(self, response: MetadataResponse) -> None:
        """Merge a response without its topics."""
        self.changes += 1
        if response.brokers:
            self.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
            self.racks = {broker.node_id: broker.rack for broker in response.brokers}
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id

    def leader_unknown(self, topic: str, partition: int) -> None:
        self.changes += 1
        self.leaders.pop((topic, partition), None)

    def controller_unknown(self) -> None:
        self.changes += 1
        self.controller_id = -1

    def topic(self, name: str) -> TopicInfo:
        """Raise the error of the topic's last response."""
        info = self.topics.get(name)
        if info is None:
            unknown = error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} is unknown")
            raise self.errors.get(name, unknown).with_traceback(None)  # a kept exception grows by each raise
        return info

    def leader(self, topic: str, partition: int) -> int:
        """Raise KafkaError if the partition or its leader is missing."""
        info = self.topic(topic)
        if not 0 <= partition < len(info.partitions):
            raise error_of(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic} has {counted(len(info.partitions), 'partition')}, and no {partition}",
            )
        leader = self.leaders.get((topic, partition))
        if leader is None:
            raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} of topic {topic} has no leader now")
        return leader

    def _learn_topic(self, name: str, topic: MetadataResponseTopic) -> None:
        if topic.error_code:
            error = error_of(topic.error_code, f"topic {name}: {_meaning(topic.error_code)}")
            if error.code in _TRANSIENT and name in self.topics:
                return
            self._forget(name, error)
            return
        before = self.topics.get(name)
        previous = before.partitions if before is not None and before.topic_id == topic.topic_id else ()
        partitions = _partitions(topic, previous)
        self.errors.pop(name, None)
        self._forget_leaders(name)
        info = TopicInfo(name, topic.topic_id, partitions, topic.is_internal)
        if info != before:  # users compare the objects
            self.topics[name] = info
        for number, partition in enumerate(partitions):
            if partition.leader >= 0:
                self.leaders[name, number] = partition.leader

    def _forget(self, name: str, error: KafkaError) -> None:
        self.errors[name] = error
        self._forget_leaders(name)
        self.topics.pop(name, None)

    def _forget_leaders(self, name: str) -> None:
        info = self.topics.get(name)
        for number in range(len(info.partitions) if info is not None else 0):
            self.leaders.pop((name, number), None)


def _meaning(code: int) -> str:
    return error_of(code).detail


def _partitions(topic: MetadataResponseTopic, previous: tuple[PartitionInfo, ...]) -> tuple[PartitionInfo, ...]:
    given = {partition.partition_index: partition for partition in topic.partitions}
    unknown = PartitionInfo(-1, -1, (), ())
    return tuple(
        _newer(given[number], previous[number] if number < len(previous) else unknown) if number in given else unknown
        for number in range(max(given, default=-1) + 1)
    )


def _newer(given: MetadataResponsePartition, previous: PartitionInfo) -> PartitionInfo:
    if 0 <= given.leader_epoch < previous.leader_epoch:
        return previous
    if _is_same(given, previous):
        return previous
    return PartitionInfo(given.leader_id, given.leader_epoch, tuple(given.replica_nodes), tuple(given.isr_nodes))


def _is_same(given: MetadataResponsePartition, previous: PartitionInfo) -> bool:
    return (
        given.leader_epoch == previous.leader_epoch
        and given.leader_id == previous.leader
        and tuple(given.replica_nodes) == previous.replicas
        and tuple(given.isr_nodes) == previous.isr
    )
