"""The cluster's quotas: read from the coordination tree at the start, followed by notifications, and changed.

A change compares and sets the version of the entity's node, which may have SCRAM keys, too, and writes a notification
in the same transaction. The broker that makes a change has it in force before it answers; the others, and Apache
Kafka's in the same cluster, when they have seen the notification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.coordination_errors import kafka_error
from pylogbroker.broker.notifications import Notifications
from pylogbroker.broker.pauses import RetryPauses
from pylogbroker.broker.runtime import Runtime
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import (
    BadVersion,
    CoordinationError,
    Create,
    Delete,
    ITree,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionEvent,
    SessionExpired,
    SessionState,
    SetData,
)
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.registration import create_permanent_nodes
from pylogbroker.security.quotas import tree_layout
from pylogbroker.security.quotas.entities import QuotaEntity, Quotas, QuotaTable

log = Logger()
ENTITIES_MAX: Final = 10_000
_ATTEMPTS_MAX: Final = 10
_RETRY_SECONDS: Final = 1.0
_ROOTS: Final = ("users", "clients", "ips")

Change = Callable[[Quotas], Quotas]


@attrs.define(eq=False)
class QuotaStore:
    """`table` has the quotas in force; `_on_change` is called with each new one."""

    _tree: ITree
    _runtime: Runtime
    _on_change: Callable[[QuotaTable], None]
    table: QuotaTable = attrs.field(factory=QuotaTable, init=False)
    _session_id: int = attrs.field(init=False)
    _pauses: RetryPauses = attrs.field(init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)
    _notifications: Notifications = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = RetryPauses(self._runtime.clock)
        self._notifications = Notifications(
            self._tree, self._runtime, zk_paths.CONFIG_CHANGES, "quotas", self._read_changed, self._lock
        )

    async def open(self) -> None:
        """Read all quotas. Those that cannot be read are reported, and do not count."""
        self._session_id = self._tree.session_id
        self._tree.watch_session(self._session_changed)
        await self._read_all()

    def close(self) -> None:
        self._pauses.end()
        self._notifications.stop()

    async def alter(self, entity: QuotaEntity, change: Change) -> None:
        """Change an entity's quotas; raise KafkaError."""
        await self._lock.acquire()
        try:
            await self._write(entity, change)
        except CoordinationError as error:
            if self._runtime.may_log("writing quotas"):
                log.error("quotas could not be changed: {why}", why=error)
            raise kafka_error(error) from error
        finally:
            self._lock.release()

    async def _write(self, entity: QuotaEntity, change: Change) -> None:
        path = _path(entity)
        for _ in range(_ATTEMPTS_MAX):
            [node] = await self._tree.get_many([path])
            settings = _settings(node, path)
            before = self._quotas(entity, settings)
            after = change(before)
            if after and not before and entity not in self.table.entities and len(self.table.entities) >= ENTITIES_MAX:
                raise KafkaError(
                    f"There are quotas of {ENTITIES_MAX} entities: remove some", ErrorCode.POLICY_VIOLATION
                )
            if after != before:
                try:
                    await self._commit(entity, node, tree_layout.with_quotas(settings, after))
                except (BadVersion, NodeExists, NoNode):
                    continue  # another broker changed it
                log.info("quotas of {entity} are now {quotas}", entity=_shown(entity), quotas=_listed(after))
            self._publish({entity: after})
            return
        raise KafkaError(f"the quotas of {_shown(entity)} changed {_ATTEMPTS_MAX} times meanwhile; try again")

    def _check_count(self) -> None:
        if len(self.table.entities) >= ENTITIES_MAX:
            raise KafkaError(f"{ENTITIES_MAX} entities have quotas: remove some", ErrorCode.POLICY_VIOLATION)

    async def _commit(self, entity: QuotaEntity, node: Node | None, settings: Mapping[str, str]) -> None:
        path, data = _path(entity), zk_schema.encode_config(settings)
        notification = Create(zk_paths.CONFIG_CHANGE_PREFIX, tree_layout.encode_change(entity), sequence=True)
        if node is None:
            await create_permanent_nodes(self._tree, [f"/config/{each}" for each in tree_layout.parents(entity)])
            await self._tree.commit([Create(path, data), notification])
            return
        version = node.stat.version
        if not settings:
            removal: list[Operation] = [Delete(path, version), notification]
            try:
                await self._tree.commit(removal)
                return
            except NotEmpty:
                pass  # the user's clients have quotas
        await self._tree.commit([SetData(path, data, version), notification])

    def _publish(self, changed: Mapping[QuotaEntity, Quotas]) -> None:
        known = self.table.entities
        real = {entity: quotas for entity, quotas in changed.items() if known.get(entity, {}) != quotas}
        if real:
            self.table = self.table.changed(real)
            self._on_change(self.table)

    async def _read_all(self) -> None:
        await self._notifications.start()
        await self._lock.run(lambda: ensureDeferred(self._read_everything()))

    async def _read_everything(self) -> None:
        await self._read({*self.table.entities, *await self._stored_entities()})

    async def _stored_entities(self) -> list[QuotaEntity]:
        paths = []
        for root in _ROOTS:
            paths += [f"{root}/{name}" for name in await self._tree.children(zk_paths.configs(root))]
        for user in [path for path in paths if path.startswith("users/")]:
            try:
                paths += [f"{user}/clients/{name}" for name in await self._tree.children(f"/config/{user}/clients")]
            except NoNode:
                continue  # it has SCRAM keys, or quotas for all its clients
        entities = map(tree_layout.parse_entity_path, paths)
        return [entity for entity in entities if entity is not None]

    async def _read_changed(self, notifications: Sequence[bytes | None]) -> None:
        changed = map(tree_layout.decode_change, notifications)
        await self._read(dict.fromkeys(entity for entity in changed if entity is not None))

    async def _read(self, entities: Iterable[QuotaEntity]) -> None:
        names = list(entities)
        nodes = await self._tree.get_many([_path(entity) for entity in names])
        found: dict[QuotaEntity, Quotas] = {}
        async for entity, node in self._runtime.slices.over(zip(names, nodes, strict=True)):
            try:
                found[entity] = self._quotas(entity, _settings(node, _path(entity)))
            except KafkaError as error:
                log.error("{why}; those before stay in force", why=error.detail)
        self._publish(found)

    def _quotas(self, entity: QuotaEntity, settings: Mapping[str, str]) -> Quotas:
        try:
            return tree_layout.quotas_of(entity, settings)
        except ValueError as error:
            raise _unreadable(_path(entity), error) from error

    def _session_changed(self, event: SessionEvent) -> None:
        """Read all again in a new session: notifications may have been missed."""
        if (
            event.state is SessionState.CONNECTED
            and event.session_id != self._session_id
            and not self._pauses.has_ended
        ):
            self._session_id = event.session_id
            ensureDeferred(self._resume())

    async def _resume(self) -> None:
        while not self._pauses.has_ended:
            try:
                await self._read_all()
                return
            except SessionExpired:
                return  # the next session reads them
            except CoordinationError as error:
                if self._runtime.may_log("reading quotas again"):
                    log.warn("quotas cannot be read now, changes are missed: {why}", why=error)
                await self._pauses.pause(_RETRY_SECONDS)


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
