"""The cluster's image in the coordination tree.

| change             | nodes                                                                                       |
|--------------------|---------------------------------------------------------------------------------------------|
| TopicCreated       | creates the topic, `partitions`, and each partition with its state                          |
| PartitionsChanged  | creates or sets states; sets the topic if partitions are new or have other replicas         |
| TopicDeleted       | marks the topic; `deletion` removes its nodes, once its logs are gone                       |
| ConfigChanged      | creates or sets the settings                                                                |
| others             | none: sessions of brokers make them                                                         |

A state is set only if its version is still the former partition epoch: of two writers one fails.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import attrs

from pylogbroker.interfaces import Create, Delete, ITree, Node, Operation, SetData
from pylogbroker.java.text import parse_whole
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import Change, ConfigChanged, Delta, PartitionsChanged, TopicCreated, TopicDeleted
from pylogbroker.metadata.image import (
    NO_TOPIC_ID,
    TYPES_IN_TREE,
    BrokerListener,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ConfigResourceType,
    LeaderRecovery,
    PartitionState,
    TopicImage,
    unstored_partition,
)
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.zk_schema import BrokerNode, PartitionNode, TopicNode

T = TypeVar("T")
_TOPICS_PER_STEP: Final = 20


class TreeReader(Protocol):
    """Reads of `ITree` that an image needs."""

    async def children(self, path: str, /) -> list[str]: ...

    async def get_many(self, paths: Sequence[str], /) -> list[Node | None]: ...

    async def children_with_data(self, path: str, /) -> dict[str, Node]: ...


class TimeSlices(Protocol):
    def over(self, items: Iterable[T], /) -> AsyncIterator[T]: ...


@attrs.frozen
class TreeContents:
    """Image in the tree, without interrupted deletions."""

    image: ClusterImage
    deleted: tuple[TopicImage, ...] = ()


async def read_image(tree: ITree, slices: TimeSlices) -> TreeContents:
    marked = set(await tree.children(zk_paths.DELETE_TOPICS))
    topics: dict[str, TopicImage] = {}
    deleted: list[TopicImage] = []
    async for topic in read_topics(tree, slices):
        topic = _with_first_states(topic)
        if topic.name in marked:
            deleted.append(topic)
        else:
            topics[topic.name] = topic
    configs = await _read_configs(tree, marked)
    names = {topic.id.int: topic.name for topic in topics.values() if topic.id != NO_TOPIC_ID}
    image = ClusterImage(
        brokers=PersistentMap(await read_brokers(tree)),
        topics=PersistentMap(topics),
        topic_names=PersistentMap(names),
        partition_count=sum(len(topic.partitions) for topic in topics.values()),
        configs=PersistentMap(configs),
    )
    return TreeContents(image, tuple(deleted))


async def read_topics(
    tree: TreeReader, slices: TimeSlices, names: Collection[str] | None = None
) -> AsyncIterator[TopicImage]:
    """Read topics, by default all of them. Partitions that the controller has not created yet are not stored."""
    nodes = await _topic_nodes(tree, names)
    async for start in slices.over(range(0, len(nodes), _TOPICS_PER_STEP)):
        decoded = {name: zk_schema.decode_topic(node.data) for name, node in nodes[start : start + _TOPICS_PER_STEP]}
        keys = [(name, number) for name, topic in decoded.items() for number in topic.replicas]
        states = await tree.get_many([zk_paths.partition_state(*key) for key in keys])
        by_key = dict(zip(keys, states, strict=True))
        for name, topic in decoded.items():
            partitions: dict[int, PartitionState] = {}
            shared: dict[tuple[int, bytes | None, int], PartitionState] = {}  # decoding and memory for each are saved
            async for number, assigned in slices.over(assigned_partitions(topic).items()):
                node = by_key[name, number]
                key = id(assigned), *((None, -1) if node is None else (node.data, node.stat.version))
                state = shared.get(key)
                if state is None:
                    state = shared[key] = with_stored_state(assigned, node)
                partitions[number] = state
            yield TopicImage(name, topic.topic_id, PersistentMap(partitions))


async def _topic_nodes(tree: TreeReader, names: Collection[str] | None) -> list[tuple[str, Node]]:
    if names is None:
        return list((await tree.children_with_data(zk_paths.TOPICS)).items())
    nodes = await tree.get_many([zk_paths.topic(name) for name in names])
    return [(name, node) for name, node in zip(names, nodes, strict=True) if node is not None]


def assigned_partitions(topic: TopicNode) -> dict[int, PartitionState]:
    """Return a topic's partitions without their states; those with equal replicas share one."""
    shared: dict[tuple[Sequence[int], ...], PartitionState] = {}
    partitions: dict[int, PartitionState] = {}
    for number, replicas in topic.replicas.items():
        brokers = replicas, topic.adding.get(number, ()), topic.removing.get(number, ())
        state = shared.get(brokers)
        partitions[number] = shared.setdefault(brokers, unstored_partition(*brokers)) if state is None else state
    return partitions


def with_stored_state(assigned: PartitionState, node: Node | None) -> PartitionState:
    """Return the partition with the state in its node, or without one."""
    if node is None:
        return assigned if not assigned.is_stored else unstored_partition(*_assignment(assigned))
    state = zk_schema.decode_partition(node.data)
    return attrs.evolve(
        assigned,
        leader=state.leader,
        isr=state.isr,
        leader_epoch=state.leader_epoch,
        partition_epoch=node.stat.version,
        recovery=LeaderRecovery.RECOVERING if state.recovery else LeaderRecovery.RECOVERED,
        controller_epoch=state.controller_epoch,
    )


def _with_first_states(topic: TopicImage) -> TopicImage:
    """Assume that each partition without a node gets its preferred leader and all replicas in sync."""
    first = {number: new_partition(state.replicas) for number, state in topic.partitions.items() if not state.is_stored}
    return attrs.evolve(topic, partitions=topic.partitions.changed(first))


def new_partition(replicas: Sequence[int]) -> PartitionState:
    return PartitionState(replicas[0], tuple(replicas), tuple(replicas))


def new_partitions(assignment: Mapping[int, Sequence[int]]) -> dict[int, PartitionState]:
    """Share one state for equal replicas."""
    by_replicas = {replicas: new_partition(replicas) for replicas in set(map(tuple, assignment.values()))}
    return {number: by_replicas[tuple(replicas)] for number, replicas in assignment.items()}


async def _read_configs(tree: ITree, deleted: Collection[str]) -> dict[ConfigResource, Mapping[str, str]]:
    configs: dict[ConfigResource, Mapping[str, str]] = {}
    for kind in TYPES_IN_TREE:
        for name, node in (await tree.children_with_data(zk_paths.configs(kind))).items():
            if kind is not ConfigResourceType.TOPICS or name not in deleted:
                configs[ConfigResource(kind, name)] = zk_schema.decode_config(node.data)
    return configs


async def read_brokers(tree: TreeReader) -> dict[int, BrokerRegistration]:
    nodes = await tree.children_with_data(zk_paths.BROKER_IDS)
    return {
        (broker := parse_whole(name, 32)): broker_registration(
            broker, node.stat.created, zk_schema.decode_broker(node.data)
        )
        for name, node in nodes.items()
    }


def broker_registration(broker_id: int, epoch: int, node: BrokerNode) -> BrokerRegistration:
    listeners = {
        name: BrokerListener(host, port, node.protocols.get(name, name))
        for name, host, port in map(zk_schema.parse_endpoint, node.endpoints)
    }
    return BrokerRegistration(broker_id, epoch, listeners, node.rack, has_archive=node.has_archive)


def operations(delta: Delta, before: ClusterImage) -> Iterator[Operation]:
    for change in delta:
        yield from _operations(change, before)


def deletion(topic: TopicImage) -> Iterator[Operation]:
    for number in topic.partitions:
        yield Delete(zk_paths.partition_state(topic.name, number))
        yield Delete(zk_paths.partition(topic.name, number))
    yield Delete(zk_paths.partitions(topic.name))
    yield Delete(zk_paths.topic(topic.name))
    yield Delete(zk_paths.topic_config(topic.name))
    yield Delete(zk_paths.deleted_topic(topic.name))


def _operations(change: Change, before: ClusterImage) -> Iterator[Operation]:
    match change:
        case TopicCreated(topic):
            yield Create(zk_paths.topic(topic.name), encode_topic_image(topic))
            yield Create(zk_paths.partitions(topic.name))
            for number, state in topic.partitions.items():
                yield from _new_partition(topic.name, number, state)
        case PartitionsChanged(name, partitions):
            yield from _changed_partitions(before.topics[name], partitions)
        case TopicDeleted(topic):
            yield Create(zk_paths.deleted_topic(topic.name))
        case ConfigChanged(resource, settings):
            path = zk_paths.config(resource.type, resource.name)
            data = zk_schema.encode_config(settings)
            yield SetData(path, data) if resource in before.configs else Create(path, data)


def _changed_partitions(topic: TopicImage, changed: Mapping[int, PartitionState]) -> Iterator[Operation]:
    former = {number: topic.partitions.get(number) for number in changed}
    if any(before is None or _assignment(before) != _assignment(changed[number]) for number, before in former.items()):
        after = attrs.evolve(topic, partitions=topic.partitions.changed(changed))
        yield SetData(zk_paths.topic(topic.name), encode_topic_image(after))
    for number, before in former.items():
        if before is None:
            yield from _new_partition(topic.name, number, changed[number])
        else:
            path = zk_paths.partition_state(topic.name, number)
            yield SetData(path, encode_state(changed[number]), before.partition_epoch)


def _assignment(state: PartitionState) -> tuple[tuple[int, ...], ...]:
    return state.replicas, state.adding, state.removing


def _new_partition(name: str, number: int, state: PartitionState) -> Iterator[Operation]:
    yield Create(zk_paths.partition(name, number))
    yield Create(zk_paths.partition_state(name, number), encode_state(state))


def encode_state(state: PartitionState) -> bytes:
    node = PartitionNode(state.leader, state.leader_epoch, state.isr, state.controller_epoch, int(state.recovery))
    return zk_schema.encode_partition(node)


def encode_topic_image(topic: TopicImage) -> bytes:
    states = topic.partitions.items()
    return zk_schema.encode_topic(
        TopicNode(
            topic.id,
            replicas={number: state.replicas for number, state in states},
            adding={number: state.adding for number, state in states if state.adding},
            removing={number: state.removing for number, state in states if state.removing},
        )
    )
