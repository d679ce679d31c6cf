"""Topics and partitions' states as a tree in memory has them."""

from __future__ import annotations

from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.image import PartitionKey, PartitionState
from pylogbroker.metadata.zk_image import assigned_partitions, with_stored_state
from pylogbroker.metadata.zk_schema import TopicNode
from tests.controller.memory_tree import MemoryTree


class StoredCluster:
    tree: MemoryTree

    def topic(self, name: str) -> TopicNode:
        node = self.tree.node(zk_paths.topic(name))
        assert node, name
        return zk_schema.decode_topic(node.data)

    def state(self, key: PartitionKey) -> PartitionState:
        return self._with_state(key, assigned_partitions(self.topic(key[0]))[key[1]])

    def states(self) -> dict[PartitionKey, PartitionState]:
        return {
            (name, number): self._with_state((name, number), assigned)
            for name in self.tree.names(zk_paths.TOPICS)
            for number, assigned in assigned_partitions(self.topic(name)).items()
        }

    def _with_state(self, key: PartitionKey, assigned: PartitionState) -> PartitionState:
        return with_stored_state(assigned, self.tree.node(zk_paths.partition_state(*key)))
