"""Levels of features in the coordination tree, followed and changed by every broker.

The version of the node is the epoch of the levels: each change raises it by one. A new cluster begins with the newest
levels, or with those of `initial.features`. In a cluster with brokers of Kafka 3.9 there are no features.

A member of a cluster of KRaft controllers makes the node again at each start. There the epoch is the offset of the
metadata, as Kafka has it: clients keep levels of the highest epoch that they have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.broker.metadata.followed_nodes import FollowedNodes
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.interfaces import Changed, Create, ITree, Node, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.feature_levels import (
    METADATA_VERSION,
    SUPPORTED_LEVELS,
    LevelChange,
    LevelRange,
    changed,
    initial_levels,
)

log = Logger()
_NODE_VERSION: Final = 2  # of its JSON: levels by feature


@attrs.define(eq=False, repr=False)
class FeatureStore:
    """`levels` and `epoch` are those in force; features that are off have no level."""

    _tree: ITree
    _runtime: Runtime
    is_on: bool
    _initial: Mapping[str, int] = attrs.field(factory=initial_levels)
    supported: Mapping[str, LevelRange] = attrs.field(default=SUPPORTED_LEVELS)
    _offset: Callable[[], int] | None = attrs.field(default=None)
    """Returns the offset of the metadata, where KRaft controllers keep them."""
    levels: Mapping[str, int] = attrs.field(factory=dict, init=False)
    _version: int = attrs.field(default=0, init=False)
    _nodes: FollowedNodes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._nodes = FollowedNodes(self._tree, self._runtime, "features", self._read, {})

    async def open(self) -> None:
        """Read the levels, and follow them from now on; raise CoordinationError."""
        if not self.is_on:
            return
        await self._nodes.open()
        if METADATA_VERSION not in self.levels:
            await self._nodes.change(zk_paths.FEATURES, self._begin)

    def close(self) -> None:
        self._nodes.close()

    @property
    def epoch(self) -> int:
        return self._version if self._offset is None else self._offset()

    def level(self, feature: str) -> int:
        return self.levels.get(feature, 0)

    async def change(self, changes: Sequence[LevelChange], validate_only: bool = False) -> None:
        """Change levels, all or none; raise KafkaError."""

        async def attempt(node: Node | None) -> None:
            before = _levels(node)
            after = changed(before, changes)
            if not validate_only and after != before:
                await self._write(node, after)

        await self._nodes.change(zk_paths.FEATURES, attempt)

    async def _begin(self, node: Node | None) -> None:
        before = _levels(node)
        if METADATA_VERSION not in before:  # else another broker was first
            await self._write(node, self._initial)

    async def _write(self, node: Node | None, levels: Mapping[str, int]) -> None:
        data = zk_schema.encode_features(zk_schema.FeaturesNode(True, _NODE_VERSION, levels))
        version = None if node is None else node.stat.version
        await self._tree.commit(
            [Create(zk_paths.FEATURES, data) if version is None else SetData(zk_paths.FEATURES, data, version)]
        )
        self.levels, self._version = levels, 0 if version is None else version + 1
        log.info("features of the cluster: {levels}", levels=dict(levels))

    async def _read(self) -> None:
        await self._tree.exists(zk_paths.FEATURES, self._on_change)
        [node] = await self._tree.get_many([zk_paths.FEATURES])
        self.levels, self._version = _levels(node), 0 if node is None else node.stat.version

    def _on_change(self, change: Changed) -> None:
        self._nodes.read_again()


def _levels(node: Node | None) -> dict[str, int]:
    """Return the levels in a node; those of another form, and of other programs, are none."""
    if node is None or not node.data:
        return {}
    try:
        stored = zk_schema.decode_features(node.data)
    except zk_schema.BadNode as error:
        log.error("the features of the cluster cannot be read: {why}", why=error)
        return {}
    levels = stored.features if stored.enabled and isinstance(stored.features, Mapping) else {}
    return {name: level for name, level in levels.items() if type(level) is int and level > 0}
