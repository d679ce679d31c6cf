"""Topics in the coordination tree: reading them all at once, and writing changes.

Each change is one transaction of the tree, so that a crash leaves all of its nodes or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from pylogbroker.broker.runtime import InThread
from pylogbroker.broker.slices import Slices
from pylogbroker.interfaces import Create, Delete, ITree, Node, Operation, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.topic_names import PartitionState, Topic, new_partition
from pylogbroker.metadata.zk_schema import PartitionNode, TopicNode

_TOPICS_PER_STEP = 20
_PARTITIONS_INLINE_MAX = 500


@attrs.frozen
class TopicStore:
    """The part of the tree that holds topics; the operations of large changes are made in a worker thread."""

    _tree: ITree
    _in_thread: InThread | None = None

    async def load(self, slices: Slices) -> list[Topic]:
        """Every topic, also those that are being deleted; some topics in each step."""
        nodes = list((await self._tree.children_with_data(zk_paths.TOPICS)).items())
        configs = await self._tree.children_with_data(zk_paths.CONFIG_TOPICS)
        topics: list[Topic] = []
        async for start in slices.over(range(0, len(nodes), _TOPICS_PER_STEP)):
            some = nodes[start : start + _TOPICS_PER_STEP]
            described = {name: zk_schema.decode_topic(node.data) for name, node in some}
            states = await self._load_states(described)
            topics += (_topic(name, node, states, configs.get(name)) for name, node in described.items())
        return topics

    async def _load_states(self, topics: dict[str, TopicNode]) -> dict[tuple[str, int], Node | None]:
        keys = [(name, number) for name, topic in topics.items() for number in topic.replicas]
        nodes = await self._tree.get_many([zk_paths.partition_state(*key) for key in keys])
        return dict(zip(keys, nodes, strict=True))

    async def load_deletions(self) -> list[str]:
        """The names of the topics that are being deleted."""
        return list(await self._tree.children(zk_paths.DELETE_TOPICS))

    async def add(self, topic: Topic, *others: Operation) -> None:
        """Write a new topic, and do other operations in the same transaction."""
        await self._commit(
            topic,
            lambda: [
                Create(zk_paths.topic_config(topic.name), zk_schema.encode_config(topic.overrides)),
                Create(zk_paths.topic(topic.name), _encode(topic)),
                Create(zk_paths.partitions(topic.name)),
                *_new_partitions(topic, topic.partitions),
                *others,
            ],
        )

    async def add_partitions(self, topic: Topic, added: Iterable[int]) -> None:
        """Write a topic that has got the partitions `added`."""
        await self._commit(
            topic, lambda: [SetData(zk_paths.topic(topic.name), _encode(topic)), *_new_partitions(topic, added)]
        )

    async def set_overrides(self, topic: Topic) -> None:
        """Write a topic's own settings."""
        await self._tree.commit([SetData(zk_paths.topic_config(topic.name), zk_schema.encode_config(topic.overrides))])

    async def mark_deleted(self, topic: Topic) -> None:
        """Write that a topic is being deleted."""
        await self._tree.commit([Create(zk_paths.deleted_topic(topic.name))])

    async def remove(self, topic: Topic) -> None:
        """Remove all nodes of a topic, and the mark of its deletion."""
        await self._commit(
            topic,
            lambda: [
                *(operation for number in topic.partitions for operation in _remove_partition(topic.name, number)),
                Delete(zk_paths.partitions(topic.name)),
                Delete(zk_paths.topic(topic.name)),
                Delete(zk_paths.topic_config(topic.name)),
                Delete(zk_paths.deleted_topic(topic.name)),
            ],
        )

    async def _commit(self, topic: Topic, make: Callable[[], Sequence[Operation]]) -> None:
        in_thread = self._in_thread if len(topic.partitions) > _PARTITIONS_INLINE_MAX else None
        await self._tree.commit(make() if in_thread is None else await in_thread(make))


def _topic(name: str, node: TopicNode, states: dict[tuple[str, int], Node | None], config: Node | None) -> Topic:
    partitions = {
        number: _partition(replicas, states[name, number]) for number, replicas in sorted(node.replicas.items())
    }
    return Topic(name, node.topic_id, partitions, zk_schema.decode_config(config.data) if config else {})


def _partition(replicas: tuple[int, ...], node: Node | None) -> PartitionState:
    if node is None:
        return new_partition(replicas)
    state = zk_schema.decode_partition(node.data)
    return PartitionState(state.leader, replicas, state.isr, state.leader_epoch)


def _encode(topic: Topic) -> bytes:
    replicas = {number: state.replicas for number, state in topic.partitions.items()}
    return zk_schema.encode_topic(TopicNode(topic.id, replicas))


def _new_partitions(topic: Topic, added: Iterable[int]) -> Iterator[Operation]:
    for number in added:
        state = topic.partitions[number]
        yield Create(zk_paths.partition(topic.name, number))
        yield Create(
            zk_paths.partition_state(topic.name, number),
            zk_schema.encode_partition(PartitionNode(state.leader, state.leader_epoch, state.isr)),
        )


def _remove_partition(name: str, number: int) -> tuple[Operation, Operation]:
    return Delete(zk_paths.partition_state(name, number)), Delete(zk_paths.partition(name, number))
