"""The cluster's ACLs: read from the coordination tree at the start, followed by notifications, and changed.

A change compares and sets the version of the resource's node, so that brokers do not overwrite each other's changes,
and writes a notification in the same transaction. The broker that makes a change has it in force before it answers; the
others, and Apache Kafka's in the same cluster, when they have seen the notification.

ACLs are not part of the cluster's image: partitions and topics do not depend on them, and without an authorizer nobody
reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Final

import attrs
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.coordination_errors import kafka_error
from pylogbroker.broker.new_sessions import NewSessions
from pylogbroker.broker.notifications import Notifications
from pylogbroker.broker.runtime import Runtime
from pylogbroker.errors import KafkaError, StartupError
from pylogbroker.interfaces import (
    BadVersion,
    CoordinationError,
    Create,
    Delete,
    ITree,
    Node,
    NodeExists,
    NoNode,
    Operation,
    SetData,
)
from pylogbroker.metadata.registration import create_permanent_nodes
from pylogbroker.security.acls import tree_layout
from pylogbroker.security.acls.bindings import AccessControlEntry, AclBinding, PatternType, ResourcePattern
from pylogbroker.security.acls.index import AclIndex, Entries
from pylogbroker.security.acls.tree_layout import BadAcls

log = Logger()
_ATTEMPTS_MAX: Final = 10
_NO_ENTRIES: Final[Entries] = frozenset()

Change = Callable[[Entries], Entries]


@attrs.define(eq=False)
class AclStore:
    """`index` has the ACLs in force; `_on_change` is called with each new one."""

    _tree: ITree
    _runtime: Runtime
    _on_change: Callable[[AclIndex], None]
    index: AclIndex = attrs.field(factory=AclIndex, init=False)
    _is_open: bool = attrs.field(default=False, init=False)
    _sessions: NewSessions = attrs.field(init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)
    _notifications: Sequence[Notifications] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._sessions = NewSessions(self._tree, self._runtime, "ACLs", self._read_all)
        self._notifications = [
            Notifications(
                self._tree,
                self._runtime,
                tree_layout.changes_path(pattern),
                f"{pattern.name.lower()} ACLs",
                partial(self._read_changed, pattern),
                self._lock,
            )
            for pattern in tree_layout.STORED_PATTERNS
        ]

    async def open(self) -> None:
        """Read all ACLs; raise StartupError if some cannot be read."""
        await create_permanent_nodes(self._tree, tree_layout.permanent_paths())
        self._sessions.follow()
        try:
            await self._read_all()
        except BadAcls as error:
            raise StartupError(f"stored ACLs cannot be read, so nobody can be authorized: {error}") from error
        self._is_open = True

    def close(self) -> None:
        self._sessions.stop()
        for each in self._notifications:
            each.stop()

    async def add(self, resource: ResourcePattern, new: Entries) -> None:
        """Add entries of a resource; raise KafkaError."""
        await self._change(resource, lambda before: before | new)

    async def remove(self, bindings: Iterable[AclBinding]) -> dict[AclBinding, KafkaError | None]:
        """Return the bindings that are removed, and those that remain because of an error."""
        entries: dict[ResourcePattern, set[AccessControlEntry]] = {}
        async for binding in self._runtime.slices.over(bindings):
            entries.setdefault(binding.resource, set()).add(binding.entry)
        outcomes: dict[AclBinding, KafkaError | None] = {}
        async for resource, old in self._runtime.slices.over(entries.items()):
            error, concerned = None, list(old)
            try:
                concerned = await self._change(resource, partial(_without, old))
            except KafkaError as failure:
                error = failure
            outcomes |= {AclBinding(resource, entry): error for entry in concerned}
        return outcomes

    async def _change(self, resource: ResourcePattern, change: Change) -> list[AccessControlEntry]:
        """Write a resource's new entries; return those that are gone."""
        await self._lock.acquire()
        try:
            before, after = await self._write(resource, change)
        except CoordinationError as error:
            if self._runtime.may_log("writing ACLs"):
                log.error("ACLs could not be changed: {why}", why=error)
            raise kafka_error(error) from error
        except BadAcls as error:
            raise KafkaError(f"the stored ACLs of {resource.name} cannot be read: {error}") from error
        finally:
            self._lock.release()
        return list(before - after)

    async def _write(self, resource: ResourcePattern, change: Change) -> tuple[Entries, Entries]:
        for _ in range(_ATTEMPTS_MAX):
            [node] = await self._tree.get_many([tree_layout.path(resource)])
            before = _NO_ENTRIES if node is None else tree_layout.decode_entries(node.data)
            after = change(before)
            if after != before:
                try:
                    await self._tree.commit(_operations(resource, node, after))
                except (BadVersion, NodeExists, NoNode):
                    continue  # another broker changed it
            self._publish({resource: after})
            return before, after
        raise KafkaError(f"the ACLs of {resource.name} changed {_ATTEMPTS_MAX} times meanwhile; try again")

    def _publish(self, changed: Mapping[ResourcePattern, Entries]) -> None:
        real = {resource: entries for resource, entries in changed.items() if self.index.entries(resource) != entries}
        if real:
            self.index = self.index.with_entries(real)
            self._on_change(self.index)

    async def _read_all(self) -> None:
        for each in self._notifications:
            await each.start()
        await self._lock.run(lambda: ensureDeferred(self._read_each(None)))

    async def _read_changed(self, pattern: PatternType, notifications: Sequence[bytes | None]) -> None:
        resources = []
        for data in notifications:
            try:
                resources.append(tree_layout.decode_change(pattern, data))
            except BadAcls as error:
                log.error("a notification of changed ACLs cannot be read, all are read again: {why}", why=error)
                await self._read_each(None)
                return
        await self._read_each(dict.fromkeys(resources))

    async def _read_each(self, resources: Iterable[ResourcePattern] | None) -> None:
        """Read the entries of some resources, or of all; raise BadAcls while the store is not open."""
        names = list(await self._all_resources() if resources is None else resources)
        nodes = await self._tree.get_many([tree_layout.path(resource) for resource in names])
        found = {}
        async for resource, node in self._runtime.slices.over(zip(names, nodes, strict=True)):
            found[resource] = _NO_ENTRIES if node is None else self._decoded(resource, node)
        self._publish(found)

    async def _all_resources(self) -> Iterable[ResourcePattern]:
        """Return the resources that have ACLs in the tree or in force."""
        known = [resource for resource, _ in self.index.resources()]
        for pattern in tree_layout.STORED_PATTERNS:
            for kind in tree_layout.STORED_TYPES:
                names = await self._tree.children(tree_layout.type_path(pattern, kind))
                known += [ResourcePattern(kind, name, pattern) for name in names]
        return dict.fromkeys(known)

    def _decoded(self, resource: ResourcePattern, node: Node) -> Entries:
        try:
            return tree_layout.decode_entries(node.data)
        except BadAcls as error:
            path = tree_layout.path(resource)
            if not self._is_open:
                raise BadAcls(f"{path}: {error}") from error
            log.error("the ACLs in {path} cannot be read, those before stay in force: {why}", path=path, why=error)
            return self.index.entries(resource)


def _operations(resource: ResourcePattern, node: Node | None, after: Entries) -> list[Operation]:
    """Return the change of a resource's node, and its notification."""
    path = tree_layout.path(resource)
    notification = Create(
        tree_layout.new_change_path(resource.pattern), tree_layout.encode_change(resource), sequence=True
    )
    if node is None:
        return [Create(path, tree_layout.encode_entries(after)), notification]
    version = node.stat.version
    change = SetData(path, tree_layout.encode_entries(after), version) if after else Delete(path, version)
    return [change, notification]


def _without(old: Set[AccessControlEntry], entries: Entries) -> Entries:
    return entries - old
