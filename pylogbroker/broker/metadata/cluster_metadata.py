"""The cluster's metadata in this broker: the current image, and services that follow it.

    controller ──Delta──> prepare ──> image ──> followers
                          replicas    requests  each acts on the delta, in the order of subscription
                          are made    see it

New replicas are made before requests see their partitions, and deleted ones dropped afterwards: no client is sent to a
partition that is not served.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import attrs
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from pylogbroker.metadata.delta import Delta
from pylogbroker.metadata.image import ClusterImage, TopicImage, topic_resource
from pylogbroker.metadata.persistent_map import PersistentMap

log = Logger()

Prepare = Callable[[Delta, ClusterImage], Awaitable[None]]


class MetadataFollower(Protocol):
    """Acts on changes of the metadata, on the reactor thread."""

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> Awaitable[None] | None:
        """Act on a delta between two images; the next delta waits for the awaitable."""


async def _nothing_to_prepare(delta: Delta, after: ClusterImage) -> None:
    """Prepare nothing: there are no replicas here."""


@attrs.define(eq=False, repr=False)
class ClusterMetadata:
    image: ClusterImage = attrs.field(factory=ClusterImage)
    prepare: Prepare = _nothing_to_prepare
    _followers: list[MetadataFollower] = attrs.field(factory=list, init=False)
    _publishing: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    @property
    def topics(self) -> PersistentMap[str, TopicImage]:
        return self.image.topics

    def topic_settings(self, name: str) -> Mapping[str, str]:
        return self.image.settings(topic_resource(name))

    def require_topic(self, name_or_id: str | uuid.UUID) -> TopicImage:
        """Return the topic with a name or id, or raise KafkaError."""
        if isinstance(name_or_id, str):
            return self.image.require_topic(name_or_id)
        return self.image.require_topic_id(name_or_id)

    def follow(self, follower: MetadataFollower) -> None:
        self._followers.append(follower)

    async def publish(self, delta: Delta) -> None:
        """Make a delta visible, one at a time; return when all followers have acted on it."""
        await self._publishing.acquire()
        try:
            await self._publish(delta)
        finally:
            self._publishing.release()

    async def _publish(self, delta: Delta) -> None:
        before = self.image
        after = delta.apply(before)
        try:
            await self.prepare(delta, after)
        except Exception:
            log.failure("new partitions could not all be prepared")
        self.image = after
        await self.notify(delta, before, after)

    async def notify(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for follower in self._followers:
            try:
                done = follower.on_delta(delta, before, after)
                if done is not None:
                    await done
            except Exception:
                log.failure("{follower} failed in a change of the metadata", follower=type(follower).__name__)
