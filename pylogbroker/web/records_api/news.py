"""News of partitions: records that have come, of a topic that somebody reads to its end."""

from __future__ import annotations

from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.services import Metadata, Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.delta import Delta
from pylogbroker.metadata.image import ClusterImage
from pylogbroker.web.records_api.fetching import committed_log
from pylogbroker.web.records_api.positions import Positions

REMOTE_SECONDS: Final = 1.0
"""Between looks at partitions that other brokers lead."""
PASSING: Final = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION)
"""Errors after which a reader only waits: a leader moves."""


async def sleep(services: Services, seconds: float) -> None:
    """Wait on the broker's clock."""
    waiting: Deferred[None] = Deferred()
    services.runtime.clock.callLater(seconds, lambda: None if waiting.called else waiting.callback(None))
    await waiting


@attrs.define(eq=False, repr=False)
class TopicChanges:
    """Ends waits for records when their topic changes: it gets partitions, or leaders move. A MetadataFollower."""

    _followed: list[Metadata] = attrs.field(factory=list, init=False)
    """Metadata that this follows."""
    _waits: dict[str, dict[News, None]] = attrs.field(factory=dict, init=False)

    def add(self, metadata: Metadata, topic: str, news: News) -> None:
        if metadata not in self._followed:
            self._followed = [metadata]
            metadata.follow(self)
        self._waits.setdefault(topic, {})[news] = None

    def remove(self, topic: str, news: News) -> None:
        waits = self._waits.get(topic, {})
        waits.pop(news, None)
        if not waits:
            self._waits.pop(topic, None)

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for topic, waits in tuple(self._waits.items()):
            if before.topics.get(topic) is not after.topics.get(topic):
                for news in tuple(waits):
                    news.end_soon()


@attrs.define(eq=False, repr=False)
class News:
    """Wait for new records of a topic: a DelayedOperation of the partitions that this broker leads."""

    _services: Services
    _topic: str
    _changes: TopicChanges
    _waiting: Deferred[None] = attrs.field(factory=Deferred, init=False)

    async def wait(self, positions: Positions, seconds: float) -> None:
        """Return when a partition rises above its position, when the topic changes, or after some seconds.

        Partitions that other brokers lead, or nobody, have no news: it is time to look at them again after a second.
        """
        watched: list[Partition] = []
        timer: IDelayedCall | None = None
        self._changes.add(self._services.metadata, self._topic, self)
        try:
            for index, offset in positions.items():
                partition = self._led(index)
                if partition is None:
                    seconds = min(seconds, REMOTE_SECONDS)
                    continue
                partition.purgatory.add(self, Mark.HIGH_WATERMARK, partition.log.high_watermark + 1)
                watched.append(partition)
                if partition.log.last_stable_offset > offset:
                    return
            timer = self._services.runtime.clock.callLater(seconds, self._end)
            await self._waiting
        finally:
            self._changes.remove(self._topic, self)
            for partition in watched:
                partition.purgatory.remove(self, Mark.HIGH_WATERMARK)
            if timer is not None and timer.active():
                timer.cancel()

    def _led(self, index: int) -> Partition | None:
        """Return a partition if this broker leads it; raise KafkaError for one that is gone."""
        try:
            return committed_log(self._services, self._topic, index).partition
        except KafkaError as error:
            if error.code not in PASSING:
                raise
            return None

    def try_complete(self, size: int) -> bool:
        self.end_soon()
        return True

    def fail(self, error: KafkaError) -> None:
        self.end_soon()

    def end_soon(self) -> None:
        """End the wait, but not within the append or the change that has the news."""
        self._services.runtime.clock.callLater(0, self._end)

    def _end(self) -> None:
        if not self._waiting.called:
            self._waiting.callback(None)
