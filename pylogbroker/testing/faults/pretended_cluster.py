"""A cluster that one broker pretends to be: other brokers in its metadata, with their own ports.

    move_leader, move_coordinator --> table --+--> Metadata, FindCoordinator name the broker of the table
                                              +--> a request at another broker's port: NOT_LEADER_OR_FOLLOWER,
                                                   NOT_COORDINATOR

All brokers are the same one, with the same logs. A leader -1 is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import NO_LEADER, ClusterImage, TopicImage
from pylogbroker.testing.faults.connections import ConnectionFaults
from pylogbroker.testing.faults.criteria import Call, Criteria
from pylogbroker.testing.faults.doors import Doors
from pylogbroker.testing.faults.fields import GROUP, PARTITION, TOPIC, TRANSACTION, Keys
from pylogbroker.testing.faults.handlers import Work, answer_with
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from pylogbroker.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from pylogbroker.wire.messages.fetch import FetchResponse
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from pylogbroker.wire.messages.produce import ProduceResponse

_AT_LEADERS: Final = frozenset((0, 1, 2, 21, 23))  # Produce, Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch
_AT_COORDINATORS: Final = {
    **dict.fromkeys((8, 9, 11, 12, 13, 14, 15, 28, 42, 47), GROUP),
    **dict.fromkeys((22, 24, 25, 26), TRANSACTION),
}
_KEY_TYPES: Final = {0: GROUP, 1: TRANSACTION}

Partition = tuple[str, int]
_CoordinatorKey = tuple[str, str]


@attrs.frozen
class Elsewhere(Criteria):
    """Criteria of the partitions that another broker leads."""

    partitions: frozenset[Partition] = frozenset()

    def selects(self, keys: Keys) -> bool:
        return (keys.get(TOPIC), keys.get(PARTITION)) in self.partitions

    def admits(self, keys: Keys) -> bool:
        if PARTITION in keys:
            return self.selects(keys)
        return TOPIC not in keys or any(topic == keys[TOPIC] for topic, _ in self.partitions)


@attrs.frozen(eq=False, repr=False)
class _Table:
    leaders: Mapping[Partition, tuple[UUID, int]] = attrs.field(factory=dict)
    """Id of the topic, and the broker: another topic of the name has its own leaders."""
    coordinators: Mapping[_CoordinatorKey, int] = attrs.field(factory=dict)

    def leader(self, image: ClusterImage, topic: str, partition: int) -> int | None:
        """Return the broker that a partition was moved to, or NO_LEADER; None if it was not moved."""
        topic_id, leader = self.leaders.get((topic, partition), (None, NO_LEADER))
        topic_image = image.topics.get(topic)
        return None if topic_image is None or topic_image.id != topic_id else leader


@attrs.define(eq=False, repr=False)
class PretendedCluster:
    _faults: ConnectionFaults
    doors: Doors = attrs.field(init=False)
    _table: _Table = attrs.field(factory=_Table, init=False)
    _shown: tuple[_Table, ClusterImage] | None = attrs.field(default=None, init=False)  # None: as it is

    def __attrs_post_init__(self) -> None:
        self.doors = Doors(self._faults)

    def lead(self, topic: TopicImage, partition: int, broker: int) -> None:
        changed = {**self._table.leaders, (topic.name, partition): (topic.id, broker)}
        self._table = attrs.evolve(self._table, leaders=changed)

    def coordinate(self, kind: str, key: str, broker: int) -> None:
        changed = {**self._table.coordinators, (kind, key): broker}
        self._table = attrs.evolve(self._table, coordinators=changed)

    def lag(self, image: ClusterImage) -> None:
        """Show from now on the present state alone."""
        self._shown = self._table, image

    def catch_up(self) -> None:
        self._shown = None

    def reset(self) -> None:
        self._table, self._shown = _Table(), None

    async def handle(self, call: Call, work: Work) -> Any:
        own = call.services.node.id
        door = own if call.connection is None else call.connection.broker_id
        key = call.api.key
        if key in _AT_LEADERS and (door != own or self._table.leaders):
            return await self._at_leader(call, work, door)
        if key in _AT_COORDINATORS and (door != own or self._table.coordinators) and self._is_wrong(call, door):
            return await answer_with(ErrorCode.NOT_COORDINATOR, Criteria(), call, work)
        if isinstance(call.request, MetadataRequest | DescribeTopicPartitionsRequest) and self._shown is not None:
            call = attrs.evolve(call, services=_LaggingServices(call.services, self._shown[1]))
        if isinstance(call.request, ApiVersionsRequest) and call.request.node_id == door:
            call.request.node_id = own
        return self._edited(call, await work(call))

    # -- requests ------------------------------------------------------------------------------------------------

    async def _at_leader(self, call: Call, work: Work, door: int) -> Any:
        partitions = {(keys[TOPIC], keys[PARTITION]) for keys in call.leaves() if TOPIC in keys and PARTITION in keys}
        topics = call.services.metadata.image.topics
        wrong = frozenset(  # partitions that do not exist get the broker's own error
            (topic, partition)
            for topic, partition in partitions
            if topic in topics
            and partition in topics[topic].partitions
            and self._leader(call, topic, partition) != door
        )
        if not wrong:
            return await work(call)
        elements = {TOPIC: None, PARTITION: None}
        criteria = Elsewhere(elements=elements, partitions=wrong)
        answer = await answer_with(ErrorCode.NOT_LEADER_OR_FOLLOWER, criteria, call, work)
        if isinstance(answer, ProduceResponse | FetchResponse):
            self._name_leaders(call, answer)
        return answer

    def _name_leaders(self, call: Call, answer: Any) -> None:
        """Name the new leaders, as KIP-951 has it."""
        of_produce = isinstance(answer, ProduceResponse)
        for topic in answer.responses:
            name = str((topic.name if of_produce else topic.topic) or call.topic_names(topic.topic_id))
            for partition in topic.partition_responses if of_produce else topic.partitions:
                index = partition.index if of_produce else partition.partition_index
                leader = self._leader(call, name, index)
                image = call.services.metadata.image.topics.get(name)
                state = None if image is None else image.partitions.get(index)
                if (
                    partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                    and leader != NO_LEADER
                    and state is not None
                ):
                    partition.current_leader = type(partition.current_leader)(leader, state.leader_epoch)

    def _leader(self, call: Call, topic: str, partition: int) -> int:
        leader = self._table.leader(call.services.metadata.image, topic, partition)
        return int(call.services.node.id) if leader is None else leader

    def _is_wrong(self, call: Call, door: int) -> bool:
        kind, own = _AT_COORDINATORS[call.api.key], call.services.node.id
        keys = [leaf[kind] for leaf in call.leaves() if leaf.get(kind)]
        return any(self._table.coordinators.get((kind, key), own) != door for key in keys)

    # -- answers -------------------------------------------------------------------------------------------------

    def _edited(self, call: Call, answer: Any) -> Any:
        shown, image = (self._table, call.services.metadata.image) if self._shown is None else self._shown
        listener = call.context.listener
        if isinstance(answer, MetadataResponse):
            host = answer.brokers[0].host if answer.brokers else ""
            answer.brokers += [
                MetadataResponseBroker(broker, host, port) for broker, port in self.doors.ports(listener)
            ]
            self._move_leaders(answer, shown, image, call)
        elif isinstance(answer, DescribeTopicPartitionsResponse):
            self._move_leaders(answer, shown, image, call)
        elif isinstance(answer, DescribeClusterResponse):
            host = answer.brokers[0].host if answer.brokers else ""
            answer.brokers += [DescribeClusterBroker(broker, host, port) for broker, port in self.doors.ports(listener)]
        elif isinstance(answer, FindCoordinatorResponse) and isinstance(call.request, FindCoordinatorRequest):
            kind = _KEY_TYPES.get(call.request.key_type, "")
            answer_of: list[tuple[str, Any]] = [
                (coordinator.key, coordinator) for coordinator in answer.coordinators
            ] or [(call.request.key, answer)]
            for key, row in answer_of:
                self._move_coordinator(row, shown.coordinators.get((kind, key)), call)
        return answer

    def _move_leaders(
        self,
        answer: MetadataResponse | DescribeTopicPartitionsResponse,
        shown: _Table,
        image: ClusterImage,
        call: Call,
    ) -> None:
        for topic in answer.topics:
            name = topic.name or call.topic_names(topic.topic_id)
            for partition in topic.partitions:
                leader = shown.leader(image, str(name), partition.partition_index)
                if leader is None:
                    continue
                partition.leader_id = leader
                if leader == NO_LEADER:
                    partition.error_code = ErrorCode.LEADER_NOT_AVAILABLE
                elif leader not in partition.replica_nodes:
                    partition.replica_nodes = [leader, *partition.replica_nodes]
                    partition.isr_nodes = [leader, *partition.isr_nodes]

    def _move_coordinator(self, coordinator: Any, broker: int | None, call: Call) -> None:
        if broker is None or coordinator.error_code:
            return
        if broker == call.services.node.id:
            return
        port = self.doors.port(broker, call.context.listener)
        if port is None:  # nobody, or a broker that was removed
            coordinator.node_id, coordinator.host, coordinator.port = -1, "", -1
            coordinator.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            coordinator.node_id, coordinator.port = broker, port


class _LaggingServices:
    """Services whose metadata is an earlier image."""

    def __init__(self, services: Any, image: ClusterImage) -> None:
        self._services = services
        self.image = image
        self.metadata = self.auto_creation = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._services, name)

    @property
    def topics(self) -> Any:
        return self.image.topics

    def require_topic(self, name_or_id: Any) -> Any:
        if isinstance(name_or_id, str):
            return self.image.require_topic(name_or_id)
        return self.image.require_topic_id(name_or_id)

    def find(self, name: str, allowance: Any) -> Any:
        """Return a topic of the image; create none."""
        topic = self.image.topics.get(name)
        if topic is None:
            raise KafkaError(f"There is no topic {name!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic
