"""Users of SCRAM in the coordination tree: described, changed, and followed by notifications.

A change compares and sets the version of the user's node, whose other settings stay. In a cluster it writes a
notification in the same transaction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.broker.metadata.followed_nodes import FollowedNodes
from pylogbroker.broker.metadata.tree_errors import kafka_error
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import (
    CoordinationError,
    Create,
    ITree,
    Node,
    NodeExists,
    Operation,
    SetData,
)
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.config_changes import changed_entity, notification
from pylogbroker.metadata.entity_names import desanitized, sanitized
from pylogbroker.security.sasl.stored_credentials import BadCredential, Credentials, StoredCredentials, credentials_of

log = Logger()
_SECRET_BYTES: Final = 32
_DEFAULT_USER: Final = "<default>"
_PREFIX: Final = "users/"

Settings = Mapping[str, str]
_SettingsChange = Callable[[Settings], Settings]
"""Maps the settings of a user to new ones; raises KafkaError."""


@attrs.define(eq=False, repr=False)
class ScramStore:
    """`in_force` has the credentials of all users, once the store is open."""

    _tree: ITree
    _runtime: Runtime
    _notifies: bool
    in_force: StoredCredentials = attrs.field(factory=StoredCredentials, init=False)
    secret: bytes = attrs.field(default=b"", init=False, repr=False)
    """Makes the same challenges in all brokers for users that do not exist."""
    _is_open: bool = attrs.field(default=False, init=False)
    _nodes: FollowedNodes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        acts = {zk_paths.CONFIG_CHANGES: self._read_changed}
        self._nodes = FollowedNodes(self._tree, self._runtime, "users", partial(self._read_each, None), acts)

    async def open(self) -> None:
        """Read all users, and follow their changes from now on; raise CoordinationError."""
        self.secret = await _secret(self._tree)
        await self._nodes.open()
        self._is_open = True

    def close(self) -> None:
        self._nodes.close()

    async def names(self) -> list[str]:
        """Return the users that have settings in the tree, in order; raise KafkaError."""
        try:
            return await self._runtime.slices.in_order(await self._names())
        except CoordinationError as error:
            raise kafka_error(error) from error

    async def read(self, names: Sequence[str]) -> list[Settings | zk_schema.BadNode]:
        """Return the settings of each user; raise KafkaError."""
        try:
            return [_settings(node) for node in await self._stored(names)]
        except CoordinationError as error:
            raise kafka_error(error) from error

    async def alter(self, name: str, change: _SettingsChange) -> None:
        """Change the settings of a user; changes follow each other. Raise KafkaError."""
        await self._nodes.change(zk_paths.user_config(name), lambda node: self._write(name, change, node))

    async def _write(self, name: str, change: _SettingsChange, node: Node | None) -> None:
        before = _settings(node)
        if isinstance(before, zk_schema.BadNode):
            raise KafkaError(f"the stored settings of the user cannot be read: {before}")
        after = change(before)
        await self._tree.commit(self._operations(name, node, after))
        if self._is_open:
            self.in_force.replace(name, self._credentials(name, after))

    def _operations(self, name: str, node: Node | None, after: Settings) -> list[Operation]:
        path, data = zk_paths.user_config(name), zk_schema.encode_config(after)
        change = Create(path, data) if node is None else SetData(path, data, node.stat.version)
        return [change, notification(f"{_PREFIX}{sanitized(name)}")] if self._notifies else [change]

    async def _names(self) -> list[str]:
        nodes = await self._tree.children(zk_paths.CONFIG_USERS)
        return [desanitized(node) async for node in self._runtime.slices.over(nodes) if node != _DEFAULT_USER]

    async def _stored(self, names: Iterable[str]) -> Sequence[Node | None]:
        return await self._tree.get_many([zk_paths.user_config(name) for name in names])

    async def _read_changed(self, notifications: Sequence[bytes | None]) -> None:
        names = [name for name in map(changed_user, notifications) if name is not None]
        await self._read_each(dict.fromkeys(names))

    async def _read_each(self, names: Iterable[str] | None) -> None:
        """Read some users, or all."""
        if names is None:
            names = {*await self._names(), *self.in_force.names}
        users = list(names)
        nodes = await self._stored(users)
        async for name, node in self._runtime.slices.over(zip(users, nodes, strict=True)):
            self.in_force.replace(name, self._credentials(name, _settings(node)))

    def _credentials(self, name: str, settings: Settings | zk_schema.BadNode) -> Credentials:
        try:
            if isinstance(settings, zk_schema.BadNode):
                raise BadCredential(str(settings))
            return credentials_of(settings)
        except BadCredential as error:
            log.error(
                "the credentials of user {name} cannot be read, the user cannot connect by them: {why}",
                name=name,
                why=error,
            )
            return {}


def changed_user(notification: bytes | None) -> str | None:
    """Return the user whose settings changed; None for a notification of others."""
    path = changed_entity(notification)
    node = path.removeprefix(_PREFIX)
    return None if node in (path, _DEFAULT_USER) or "/" in node else desanitized(node)


def _settings(node: Node | None) -> Settings | zk_schema.BadNode:
    try:
        return {} if node is None else zk_schema.decode_config(node.data)
    except zk_schema.BadNode as error:
        return error


async def _secret(tree: ITree) -> bytes:
    """Return the cluster's secret, and make it if it is missing."""
    while True:
        [node] = await tree.get_many([zk_paths.USERS_SECRET])
        if node is not None and node.data:
            return node.data
        try:
            await tree.commit([Create(zk_paths.USERS_SECRET, os.urandom(_SECRET_BYTES))])
        except NodeExists:
            continue  # another broker made it
