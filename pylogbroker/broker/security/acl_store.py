"""The cluster's ACLs: read from the coordination tree at the start, followed by notifications, and changed.

A change compares and sets the version of the resource's node, so that brokers do not overwrite each other's changes,
and writes a notification in the same transaction. The broker that makes a change logs a line for each ACL that it adds
or removes, with who asked.

ACLs are not part of the cluster's image: partitions and topics do not depend on them, and without an authorizer nobody
reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.broker.metadata.followed_nodes import FollowedNodes
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.security.access import printable
from pylogbroker.errors import KafkaError, StartupError
from pylogbroker.interfaces import (
    Create,
    Delete,
    ITree,
    Node,
    Operation,
    SetData,
)
from pylogbroker.metadata.registration import create_permanent_nodes
from pylogbroker.security.acls import tree_layout
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    PatternType,
    ResourcePattern,
    kafka_name,
)
from pylogbroker.security.acls.index import AclIndex, Entries
from pylogbroker.security.acls.tree_layout import BadAcls

log = Logger()
_NO_ENTRIES: Final[Entries] = frozenset()

Change = Callable[[Entries], Entries]


@attrs.define(eq=False, repr=False)
class AclStore:
    """`index` has the ACLs in force; `_on_change` is called with each new one."""

    _tree: ITree
    _runtime: Runtime
    _on_change: Callable[[AclIndex], None]
    index: AclIndex = attrs.field(factory=AclIndex, init=False)
    _is_open: bool = attrs.field(default=False, init=False)
    _nodes: FollowedNodes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        acts = {
            tree_layout.changes_path(pattern): partial(self._read_changed, pattern)
            for pattern in tree_layout.STORED_PATTERNS
        }
        self._nodes = FollowedNodes(self._tree, self._runtime, "ACLs", partial(self._read_each, None), acts)

    async def open(self) -> None:
        """Read all ACLs; raise StartupError if some cannot be read."""
        await create_permanent_nodes(self._tree, tree_layout.permanent_paths())
        try:
            await self._nodes.open()
        except BadAcls as error:
            raise StartupError(f"stored ACLs cannot be read, so nobody can be authorized: {error}") from error
        self._is_open = True

    def close(self) -> None:
        self._nodes.close()

    async def add(self, resource: ResourcePattern, new: Entries, principal: str) -> None:
        """Add entries of a resource for `principal`, who asks; raise KafkaError."""
        await self._change(resource, lambda before: before | new, principal)

    async def remove(self, bindings: Iterable[AclBinding], principal: str) -> dict[AclBinding, KafkaError | None]:
        """Return the bindings that are removed for `principal`, and those that remain because of an error."""
        entries: dict[ResourcePattern, set[AccessControlEntry]] = {}
        async for binding in self._runtime.slices.over(bindings):
            entries.setdefault(binding.resource, set()).add(binding.entry)
        outcomes: dict[AclBinding, KafkaError | None] = {}
        async for resource, old in self._runtime.slices.over(entries.items()):
            error, concerned = None, list(old)
            try:
                concerned = await self._change(resource, partial(_without, old), principal)
            except KafkaError as failure:
                error = failure
            outcomes |= {AclBinding(resource, entry): error for entry in concerned}
        return outcomes

    async def _change(self, resource: ResourcePattern, change: Change, principal: str) -> list[AccessControlEntry]:
        """Write a resource's new entries; return those that are gone."""
        try:
            before, after = await self._nodes.change(
                tree_layout.path(resource), lambda node: self._write(resource, change, node)
            )
        except BadAcls as error:
            raise KafkaError(f"the stored ACLs of {resource.name} cannot be read: {error}") from error
        gone = list(before - after)
        await self._log(principal, "added", resource, after - before)
        await self._log(principal, "removed", resource, gone)
        return gone

    async def _log(
        self, principal: str, verb: str, resource: ResourcePattern, entries: Iterable[AccessControlEntry]
    ) -> None:
        on = f"{kafka_name(resource.type)}:{resource.pattern.name}:{printable(resource.name)}"
        async for entry in self._runtime.slices.over(entries):
            log.info(
                "{principal} {verb} the ACL {permission} {operation} for {whom} from host {host} on {resource}",
                principal=printable(principal),
                verb=verb,
                permission=entry.permission.name,
                operation=entry.operation.name,
                whom=printable(entry.principal),
                host=printable(entry.host),
                resource=on,
            )

    async def _write(self, resource: ResourcePattern, change: Change, node: Node | None) -> tuple[Entries, Entries]:
        before = _NO_ENTRIES if node is None else tree_layout.decode_entries(node.data)
        after = change(before)
        if after != before:
            await self._tree.commit(_operations(resource, node, after))
        self._publish({resource: after})
        return before, after

    def _publish(self, changed: Mapping[ResourcePattern, Entries]) -> None:
        real = {resource: entries for resource, entries in changed.items() if self.index.entries(resource) != entries}
        if real:
            self.index = self.index.with_entries(real)
            self._on_change(self.index)

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
        entries = {}
        async for resource, node in self._runtime.slices.over(zip(names, nodes, strict=True)):
            entries[resource] = _NO_ENTRIES if node is None else self._decoded(resource, node)
        self._publish(entries)

    async def _all_resources(self) -> Iterable[ResourcePattern]:
        """Return the resources that have ACLs in the tree or in force."""
        resources = [resource for resource, _ in self.index.resources()]
        for pattern in tree_layout.STORED_PATTERNS:
            for kind in tree_layout.STORED_TYPES:
                names = await self._tree.children(tree_layout.type_path(pattern, kind))
                resources += [ResourcePattern(kind, name, pattern) for name in names]
        return dict.fromkeys(resources)

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
