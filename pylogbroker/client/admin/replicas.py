"""Replicas: log directories, reassignments to other brokers, elections of leaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import NodeRoute, Router, deferred, outcome
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from pylogbroker.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from pylogbroker.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from pylogbroker.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, ElectLeadersTopic
from pylogbroker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

#: Broker, topic, partition.
ReplicaKey = tuple[int, str, int]


class ElectionType(IntEnum):
    """PREFERRED elects each partition's first replica, UNCLEAN a live one that may lack records."""

    PREFERRED = 0
    UNCLEAN = 1


@attrs.frozen
class ReplicaInfo:
    """Replica in a log directory. `is_future` marks one that is being moved there, `lag` bytes behind the other."""

    size: int
    lag: int
    is_future: bool


@attrs.frozen
class LogDirDescription:
    """Log directory of a broker. The bytes of its disk are None if the broker does not return them."""

    path: str
    error: KafkaError | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: Mapping[TopicPartition, ReplicaInfo]


@attrs.frozen
class Reassignment:
    """Reassignment under way; `replicas` are the old and the new ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


Reassignments = dict[TopicPartition, Reassignment]


@attrs.frozen(eq=False, repr=False)
class ReplicaAdmin:
    _router: Router

    @deferred
    async def log_dirs(self, brokers: Iterable[int] | None = None) -> dict[int, tuple[LogDirDescription, ...]]:
        """Return the log directories of brokers, by default of all, with their replicas."""
        chosen = None if brokers is None else arguments.broker_ids("brokers", brokers)
        responses = await self._router.all_brokers(lambda: DescribeLogDirsRequest(None), chosen)
        return {node_id: _log_dirs(response) for node_id, response in responses.items()}

    @deferred
    async def alter_log_dirs(self, moves: Mapping[ReplicaKey, str]) -> None:
        """Move replicas, `(broker, topic, partition)`, to other log directories of their brokers."""
        by_broker: dict[int, list[TopicPartition]] = {}
        for key in arguments.by_key("moves", moves, "{(1, 'orders', 0): '/data/2'}"):
            if not isinstance(key, tuple) or len(key) != 3:
                raise arguments.invalid("moves", key, "(broker, topic, partition)")
            broker = arguments.number("moves", key[0])
            by_broker.setdefault(broker, []).append(arguments.partition("moves", key[1:]))
        for broker, partitions in by_broker.items():

            def make(keys: Sequence[TopicPartition], broker: int = broker) -> AlterReplicaLogDirsRequest:
                dirs: dict[str, AlterReplicaLogDir] = {}
                for topic, partition in keys:
                    path = moves[broker, topic, partition]
                    dirs.setdefault(path, AlterReplicaLogDir(path)).topics.append(
                        AlterReplicaLogDirTopic(topic, [partition])
                    )
                return AlterReplicaLogDirsRequest([*dirs.values()])

            await self._router.ask(self._router.node(broker), partitions, make, _read_moves)

    @deferred
    async def reassignments(self) -> Reassignments:
        """Return the reassignments that are under way."""

        def read(
            response: ListPartitionReassignmentsResponse,
        ) -> Iterator[tuple[None, dict[TopicPartition, Reassignment] | KafkaError]]:
            reassignments = {
                (topic.name, partition.partition_index): Reassignment(
                    tuple(partition.replicas), tuple(partition.adding_replicas), tuple(partition.removing_replicas)
                )
                for topic in response.topics
                for partition in topic.partitions
            }
            yield None, outcome("reassignments", response.error_code, response.error_message, reassignments)

        request = ListPartitionReassignmentsRequest(self._router.timeout_ms)
        return (await self._router.ask(self._router.controller(), [None], lambda _: request, read))[None]

    @deferred
    async def reassign(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Move partitions to these brokers, the preferred leader first; None cancels a reassignment."""

        def make(keys: Sequence[TopicPartition]) -> AlterPartitionReassignmentsRequest:
            topics: dict[str, ReassignableTopic] = {}
            for topic, partition in keys:
                target = replicas[topic, partition]
                row = ReassignablePartition(partition, None if target is None else [*target])
                topics.setdefault(topic, ReassignableTopic(topic)).partitions.append(row)
            return AlterPartitionReassignmentsRequest(self._router.timeout_ms, [*topics.values()])

        def read(response: AlterPartitionReassignmentsResponse) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
            for key in replicas if response.error_code else ():
                yield key, outcome("reassignment", response.error_code, response.error_message, None)
            for topic in response.responses:
                for partition in topic.partitions:
                    where = f"{topic.name}/{partition.partition_index}"
                    yield (
                        (topic.name, partition.partition_index),
                        outcome(where, partition.error_code, partition.error_message, None),
                    )

        example = "{('orders', 0): [1, 2]}"
        pairs = arguments.partitions("replicas", arguments.by_key("replicas", replicas, example))
        for brokers in replicas.values():
            if brokers is not None:
                arguments.broker_ids("replicas", brokers)
        await self._router.ask(self._router.controller(), pairs, make, read)

    @deferred
    async def elect_leaders(
        self, partitions: Iterable[TopicPartition], kind: ElectionType = ElectionType.PREFERRED
    ) -> None:
        """Elect leaders; a partition whose leader is the wanted one is no error."""

        def make(keys: Sequence[TopicPartition]) -> ElectLeadersRequest:
            topics: dict[str, ElectLeadersTopic] = {}
            for topic, partition in keys:
                topics.setdefault(topic, ElectLeadersTopic(topic)).partitions.append(partition)
            return ElectLeadersRequest(kind, [*topics.values()], self._router.timeout_ms)

        pairs = arguments.partitions("partitions", partitions)

        def read(response: ElectLeadersResponse) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
            for key in pairs:
                # A response names no partition whose leader stays.
                yield key, outcome("election", response.error_code, None, None)
            for topic in response.replica_election_results:
                for partition in topic.partition_result:
                    code = 0 if partition.error_code == ErrorCode.ELECTION_NOT_NEEDED else partition.error_code
                    where = f"{topic.topic}/{partition.partition_id}"
                    yield (topic.topic, partition.partition_id), outcome(where, code, partition.error_message, None)

        route: NodeRoute[TopicPartition] = self._router.controller()
        await self._router.ask(route, pairs, make, read)


def _log_dirs(response: DescribeLogDirsResponse) -> tuple[LogDirDescription, ...]:
    return tuple(_log_dir(result) for result in response.results)


def _log_dir(directory: DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        (topic.name, partition.partition_index): ReplicaInfo(
            partition.partition_size, partition.offset_lag, partition.is_future_key
        )
        for topic in directory.topics
        for partition in topic.partitions
    }
    return LogDirDescription(
        directory.log_dir,
        outcome(directory.log_dir, directory.error_code, None, None),
        directory.total_bytes if directory.total_bytes >= 0 else None,
        directory.usable_bytes if directory.usable_bytes >= 0 else None,
        replicas,
    )


def _read_moves(response: AlterReplicaLogDirsResponse) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
    for topic in response.results:
        for partition in topic.partitions:
            where = f"{topic.topic_name}/{partition.partition_index}"
            yield (topic.topic_name, partition.partition_index), outcome(where, partition.error_code, None, None)
