"""Settings of topics and brokers in the coordination tree: read at the start, followed by notifications.

    /config/changes/config_change_<seq>   {"version": 2, "entity_path": "topics/orders"}
                                          --> /config/topics/orders is read --> ConfigChanged

A change writes the settings and a notification, in one transaction; Apache Kafka's brokers need two. After a new
session all settings are read again, since notifications may have been missed.

A new topic comes without a notification: its settings are read when the controller first names it, and with them the
partitions of an internal topic.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import attrs
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.metadata.notifications import Notifications
from pylogbroker.broker.metadata.stored_settings import StoredSettings
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.interfaces import (
    ITree,
    Node,
    SessionExpired,
    Unavailable,
)
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.config_changes import changed_entity
from pylogbroker.metadata.delta import ConfigChanged, Delta
from pylogbroker.metadata.image import (
    TYPES_IN_TREE,
    ConfigResource,
    ConfigResourceType,
    TopicImage,
    topic_resource,
)
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS
from pylogbroker.metadata.zk_image import read_topics
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import Closed
from pylogbroker.rpc.retries import Pauses, retrying

log = Logger()
_BACKOFF: Final = Backoff.fixed(1.0)


def decode_notification(data: bytes | None) -> ConfigResource | None:
    """Return the resource whose settings changed; None for kinds that are not watched here."""
    kind, _, name = changed_entity(data).partition("/")
    return ConfigResource(ConfigResourceType(kind), name) if name and kind in TYPES_IN_TREE else None


def _is_unreached(error: BaseException) -> bool:
    return isinstance(error, Unavailable) and not isinstance(error, SessionExpired)


@attrs.define(eq=False, repr=False)
class ConfigWatch:
    _tree: ITree
    _metadata: ClusterMetadata
    _runtime: Runtime
    _stored_settings: StoredSettings
    _pauses: Pauses = attrs.field(init=False)
    _notifications: Notifications = attrs.field(init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = Pauses(self._runtime.clock)
        self._notifications = Notifications(
            self._tree, self._runtime, zk_paths.CONFIG_CHANGES, "settings", self._read_changed, self._lock
        )

    async def open(self, read_image: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin to watch, then let the image be read: changes meanwhile are read after that, and none is missed."""
        await self.start()
        await self._lock.run(lambda: ensureDeferred(read_image()))

    async def start(self) -> None:
        """Begin to watch."""
        await self._notifications.start()

    async def resume(self) -> None:
        """Watch in a new session, and read all settings again."""
        await self.start()
        resources = list(self._metadata.image.configs)  # some may be deleted
        for kind in TYPES_IN_TREE:
            names = await self._tree.children(zk_paths.configs(kind))
            resources += (ConfigResource(kind, name) for name in names)
        await self._lock.run(lambda: ensureDeferred(self._read(list(dict.fromkeys(resources)))))

    async def read(self, resource: ConfigResource) -> None:
        """Let the image have the stored settings of a topic or broker; raise CoordinationError."""
        await self._lock.run(lambda: ensureDeferred(self._read([resource])))

    async def read_topics(self, names: Sequence[str]) -> dict[str, TopicImage]:
        """Read the settings of topics that are new here, while ZooKeeper is not reached again and again.

        Return internal topics with all partitions, of which the controller's first order may name a part.
        Other reads need not wait for that: they fail meanwhile.
        Raise Unavailable at the end of the session: the controller will name the topics again in the next one.
        """
        resources = [topic_resource(name) for name in names]
        internal = [name for name in names if name in INTERNAL_TOPICS]
        if not resources:
            return {}

        async def read() -> dict[str, TopicImage]:
            await self._lock.run(lambda: ensureDeferred(self._read(resources)))
            slices = self._runtime.slices
            return {topic.name: topic async for topic in read_topics(self._tree, slices, internal)} if internal else {}

        try:
            return await retrying(read, self._pauses, _BACKOFF, retriable=_is_unreached, failed=self._log_unread_topics)
        except Closed:
            raise Unavailable("the broker stops") from None

    def _log_unread_topics(self, error: Exception) -> None:
        if self._runtime.may_log("settings of new topics"):
            log.warn("settings of new topics cannot be read now, orders wait for that: {why}", why=error)

    def stop(self) -> None:
        self._pauses.close()
        self._notifications.stop()

    async def _read_changed(self, notifications: Sequence[bytes | None]) -> None:
        changed = map(decode_notification, notifications)
        await self._read(list(dict.fromkeys(resource for resource in changed if resource is not None)))

    async def _read(self, resources: Sequence[ConfigResource]) -> None:
        nodes = await self._tree.get_many([zk_paths.config(*resource) for resource in resources])
        changes = []
        for resource, node in zip(resources, nodes, strict=True):
            settings = self._settings(resource, node)
            if settings != self._metadata.image.settings(resource):
                changes.append(ConfigChanged(resource, settings))
        if changes:
            await self._metadata.publish(Delta.of(*changes))

    def _settings(self, resource: ConfigResource, node: Node | None) -> Mapping[str, str]:
        try:
            settings = {} if node is None else zk_schema.decode_config(node.data)
        except zk_schema.BadNode as error:
            log.error("the stored settings of {name} cannot be read, nothing changes: {why}", name=resource, why=error)
            return self._metadata.image.settings(resource)
        return self._stored_settings.accepted(resource, settings)
