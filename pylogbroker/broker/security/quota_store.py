"""The cluster's quotas: read from the coordination tree at the start, followed by notifications, and changed.

A change compares and sets the version of the entity's node, which may have SCRAM keys, too, and writes a notification
in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.broker.metadata.followed_nodes import FollowedNodes
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import (
    Create,
    Delete,
    ITree,
    Node,
    NoNode,
    NotEmpty,
    Operation,
    SetData,
)
from pylogbroker.long_loops import mapped
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.config_changes import changed_entity, notification
from pylogbroker.metadata.registration import create_permanent_nodes
from pylogbroker.security.quotas import tree_layout
from pylogbroker.security.quotas.entities import QuotaEntity, Quotas, QuotaTable

log = Logger()
_ENTITIES_PER_READ: Final = 100
_ENTITIES_MAX: Final = 10_000
_ROOTS: Final = ("users", "clients", "ips")

Change = Callable[[Quotas], Quotas]


@attrs.define(eq=False, repr=False)
class QuotaStore:
    """`table` has the quotas in force; `_on_change` is called with each new one."""

    _tree: ITree
    _runtime: Runtime
    _on_change: Callable[[QuotaTable], None]
    table: QuotaTable = attrs.field(factory=QuotaTable, init=False)
    _nodes: FollowedNodes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        acts = {zk_paths.CONFIG_CHANGES: self._read_changed}
        self._nodes = FollowedNodes(self._tree, self._runtime, "quotas", self._read_everything, acts)

    async def open(self) -> None:
        """Read all quotas. Those that cannot be read are reported, and do not count."""
        await self._nodes.open()

    def close(self) -> None:
        self._nodes.close()

    async def alter(self, entity: QuotaEntity, change: Change) -> None:
        """Change an entity's quotas; raise KafkaError."""
        await self._nodes.change(_path(entity), lambda node: self._write(entity, change, node))

    async def _write(self, entity: QuotaEntity, change: Change, node: Node | None) -> None:
        settings = _settings(node, _path(entity))
        before = self._quotas(entity, settings)
        after = change(before)
        if after and not before and entity not in self.table.entities and len(self.table.entities) >= _ENTITIES_MAX:
            raise KafkaError(f"There are quotas of {_ENTITIES_MAX} entities: remove some", ErrorCode.POLICY_VIOLATION)
        if after != before:
            await self._commit(entity, node, tree_layout.with_quotas(settings, after))
            log.info("quotas of {entity} are now {quotas}", entity=_shown(entity), quotas=_listed(after))
        self._publish({entity: after})

    async def _commit(self, entity: QuotaEntity, node: Node | None, settings: Mapping[str, str]) -> None:
        path, data = _path(entity), zk_schema.encode_config(settings)
        notice = notification(tree_layout.entity_path(entity))
        if node is None:
            await create_permanent_nodes(self._tree, [f"/config/{parent}" for parent in tree_layout.parents(entity)])
            await self._tree.commit([Create(path, data), notice])
            return
        version = node.stat.version
        if not settings:
            removal: list[Operation] = [Delete(path, version), notice]
            try:
                await self._tree.commit(removal)
                return
            except NotEmpty:
                pass  # the user's clients have quotas
        await self._tree.commit([SetData(path, data, version), notice])

    def _publish(self, changed: Mapping[QuotaEntity, Quotas]) -> None:
        entities = self.table.entities
        real = {entity: quotas for entity, quotas in changed.items() if entities.get(entity, {}) != quotas}
        if real:
            self.table = self.table.changed(real)
            self._on_change(self.table)

    async def _read_everything(self) -> None:
        await self._read({*self.table.entities, *await self._stored_entities()})

    async def _stored_entities(self) -> list[QuotaEntity]:
        paths = []
        for root in _ROOTS:
            paths += [f"{root}/{name}" for name in await self._tree.children(zk_paths.configs(root))]
        slices = self._runtime.slices
        async for user in slices.over([path for path in paths if path.startswith("users/")]):
            try:
                paths += [f"{user}/clients/{name}" for name in await self._tree.children(f"/config/{user}/clients")]
            except NoNode:
                continue  # it has SCRAM keys, or quotas for all its clients
        entities = await slices.run(mapped(tree_layout.parse_entity_path, paths))
        return [entity for entity in entities if entity is not None]

    async def _read_changed(self, notifications: Sequence[bytes | None]) -> None:
        names = await self._runtime.slices.run(mapped(changed_entity, notifications))
        changed = await self._runtime.slices.run(mapped(tree_layout.parse_entity_path, names))
        await self._read(dict.fromkeys(entity for entity in changed if entity is not None))

    async def _read(self, entities: Iterable[QuotaEntity]) -> None:
        names = list(entities)
        quotas: dict[QuotaEntity, Quotas] = {}
        async for start in self._runtime.slices.over(range(0, len(names), _ENTITIES_PER_READ)):
            some = names[start : start + _ENTITIES_PER_READ]
            nodes = await self._tree.get_many([_path(entity) for entity in some])
            for entity, node in zip(some, nodes, strict=True):
                try:
                    quotas[entity] = self._quotas(entity, _settings(node, _path(entity)))
                except KafkaError as error:
                    log.error("{why}; those before stay in force", why=error.detail)
        self._publish(quotas)

    def _quotas(self, entity: QuotaEntity, settings: Mapping[str, str]) -> Quotas:
        try:
            return tree_layout.quotas_of(entity, settings)
        except ValueError as error:
            raise _unreadable(_path(entity), error) from error


def _path(entity: QuotaEntity) -> str:
    return f"/config/{tree_layout.entity_path(entity)}"


def _settings(node: Node | None, path: str) -> dict[str, str]:
    try:
        return {} if node is None else zk_schema.decode_config(node.data)
    except zk_schema.BadNode as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> KafkaError:
    return KafkaError(f"the stored quotas in {path} cannot be read: {error}")


def _shown(entity: QuotaEntity) -> str:
    """Return an entity for the log; names are encoded."""
    return tree_layout.entity_path(entity)


def _listed(quotas: Quotas) -> str:
    return ", ".join(f"{key}={value:g}" for key, value in sorted(quotas.items())) or "none"
