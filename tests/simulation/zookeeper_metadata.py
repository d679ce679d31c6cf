"""Metadata in the tree of the simulated ensemble."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from pylogbroker.broker.membership.cluster_role import ClusterRole
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.image import TYPES_IN_TREE, ConfigResource, PartitionKey
from pylogbroker.metadata.zk_paths import config, configs
from pylogbroker.security.acls import tree_layout
from pylogbroker.security.acls.bindings import AccessControlEntry, ResourcePattern
from tests.controller.invariants import Invariants as StateInvariants
from tests.controller.stored_cluster import StoredCluster
from tests.simulation.broker import SimulatedBroker
from tests.simulation.ensemble import HOST, Ensemble


class ZooKeeperMetadata(StoredCluster):
    hosts = (HOST,)

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.tree = ensemble.tree

    def watch(self, changed: Callable[[], object], applied: Callable[[int], object]) -> None:
        def tree_changed(path: str) -> None:
            if path.startswith(zk_paths.TOPICS):
                changed()

        StateInvariants.watch(self)
        self.tree.listeners.append(tree_changed)

    def topics(self) -> Iterable[str]:
        return self.tree.names(zk_paths.TOPICS)

    def topic_id(self, name: str) -> UUID | None:
        node = self.tree.node(zk_paths.topic(name))
        return None if node is None else zk_schema.decode_topic(node.data).topic_id

    def eligible(self, key: PartitionKey) -> Iterable[int]:
        return ()

    def deletions(self) -> Iterable[str]:
        return self.tree.names(zk_paths.DELETE_TOPICS)

    def settings(self) -> Iterator[tuple[ConfigResource, dict[str, str]]]:
        for kind in TYPES_IN_TREE:
            for name in self.tree.names(configs(kind)):
                node = self.tree.node(config(kind, name))
                assert node is not None
                yield ConfigResource(kind, name), zk_schema.decode_config(node.data)

    def acl_entries(self, pattern: ResourcePattern) -> frozenset[AccessControlEntry]:
        node = self.tree.node(tree_layout.path(pattern))
        return tree_layout.decode_entries(None if node is None else node.data)

    def has_all(self, serving: list[SimulatedBroker]) -> bool:
        roles = [broker.role for broker in serving if isinstance(broker.role, ClusterRole)]
        images = [role.driver.image for role in roles if role.driver.is_active]
        epochs = {broker.id: broker.epoch for broker in (images[0].brokers.values() if len(images) == 1 else ())}
        return self.ensemble.is_undisturbed and epochs == {role._broker_id: role._member.epoch for role in roles}

    def has_registered(self, broker: SimulatedBroker) -> bool:
        return broker.serving is not None

    def heal(self) -> None:
        self.ensemble.late_share = 0.0

    def check_broker(self, broker: SimulatedBroker) -> None:
        """Check nothing: a broker may be behind the tree."""
