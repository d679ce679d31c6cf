"""Settings of topics and brokers in the coordination tree: read at the start, followed by notifications.

    /config/changes/config_change_<seq>   {"version": 2, "entity_path": "topics/orders"}
                                          --> /config/topics/orders is read --> ConfigChanged

A change writes the settings, then a notification. Notifications older than 15 minutes are deleted. After a new
session all settings are read again, since notifications may have been missed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.cluster_metadata import ClusterMetadata
from pylogbroker.broker.runtime import Runtime
from pylogbroker.interfaces import Changed, CoordinationError, Delete, ITree, Node, NoNode
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import ConfigChanged, Delta
from pylogbroker.metadata.image import ConfigResource, ConfigResourceType

log = Logger()
NOTIFICATION_MS_MAX: Final = 15 * 60 * 1000
_VERSION: Final = 2


def encode_notification(resource: ConfigResource) -> bytes:
    path = f"{resource.type}/{resource.name}"
    return json.dumps({"version": _VERSION, "entity_path": path}, separators=(",", ":")).encode()


def decode_notification(data: bytes | None) -> ConfigResource | None:
    """Return the resource whose settings changed; None for kinds that are not watched here."""
    try:
        path = json.loads(data or b"")["entity_path"]
        kind, _, name = path.partition("/")
        return ConfigResource(ConfigResourceType(kind), name) if name else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


@attrs.define(eq=False)
class ConfigWatch:
    _tree: ITree
    _metadata: ClusterMetadata
    _runtime: Runtime
    _handled: set[str] = attrs.field(factory=set, init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    async def start(self) -> None:
        """Begin to watch, before the settings are read for the image: no change is missed."""
        self._handled = set(await self._tree.children(zk_paths.CONFIG_CHANGES, self._notified))

    async def resume(self) -> None:
        """Watch in a new session, and read all settings again."""
        await self.start()
        resources = list(self._metadata.image.configs)  # some may be deleted
        for kind in ConfigResourceType:
            names = await self._tree.children(zk_paths.configs(kind))
            resources += (ConfigResource(kind, name) for name in names)
        await self._read(list(dict.fromkeys(resources)))

    def stop(self) -> None:
        self._is_stopped = True

    def _notified(self, _: Changed) -> None:
        if not self._is_stopped:
            ensureDeferred(self._follow()).addErrback(
                lambda failure: log.failure("a change of settings was not followed", failure)
            )

    async def _follow(self) -> None:
        await self._lock.acquire()
        try:
            names = await self._tree.children(zk_paths.CONFIG_CHANGES, self._notified)
            found = await self._tree.get_many([zk_paths.config_change(name) for name in names])
            nodes = {name: node for name, node in zip(names, found, strict=True) if node is not None}
            changed = [decode_notification(node.data) for name, node in nodes.items() if name not in self._handled]
            await self._read(list(dict.fromkeys(resource for resource in changed if resource is not None)))
            self._handled = set(names)  # only now: after an error they are read again
            await self._delete_old(nodes)
        except CoordinationError as error:
            if not self._is_stopped and self._runtime.may_log("changes of settings"):
                log.warn("changes of settings cannot be read now: {why}", why=error)
        finally:
            self._lock.release()

    async def _read(self, resources: Sequence[ConfigResource]) -> None:
        nodes = await self._tree.get_many([zk_paths.config(*resource) for resource in resources])
        changes = []
        for resource, node in zip(resources, nodes, strict=True):
            settings = {} if node is None else zk_schema.decode_config(node.data)
            if settings != self._metadata.image.settings(resource):
                changes.append(ConfigChanged(resource, settings))
        if changes:
            await self._metadata.publish(Delta.of(*changes))

    async def _delete_old(self, nodes: Mapping[str, Node]) -> None:
        before_ms = self._runtime.now_ms() - NOTIFICATION_MS_MAX
        for name, node in nodes.items():
            if node.stat.created_ms < before_ms:
                try:
                    await self._tree.commit([Delete(zk_paths.config_change(name))])
                except NoNode:
                    continue  # another broker deleted it
