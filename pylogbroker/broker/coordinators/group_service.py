"""The group coordinator in its broker: its records are kept in `__consumer_offsets`.

To answer as if groups had never committed would send their consumers back to the beginning, so a partition that cannot
be read is not served (see `coordinator_driver`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.coordinators.driver import CoordinatorDriver
from pylogbroker.broker.coordinators.internal_topic import InternalTopic
from pylogbroker.broker.services import LogServices
from pylogbroker.config import BrokerConfig
from pylogbroker.groups import (
    AppendCallback,
    GroupCoordinator,
    GroupReplay,
    GroupSettings,
    NewGeneration,
    ProducerIdAndEpoch,
)
from pylogbroker.metadata.topic_names import Topic
from pylogbroker.records import Codec, Record

OFFSETS_TOPIC = "__consumer_offsets"
log = Logger()


@attrs.define(eq=False)
class GroupService:
    """Keeps the coordinator's records in the broker's logs, and lets the coordinator know what happens.

    It is the coordinator's store, and a listener of the catalog.
    """

    _services: LogServices
    coordinator: GroupCoordinator = attrs.field(init=False)
    _topic: InternalTopic = attrs.field(init=False)
    _driver: CoordinatorDriver[GroupReplay] = attrs.field(init=False)
    _observers: list[Callable[[NewGeneration], object]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._topic = _offsets_topic(self._services)
        self._driver = CoordinatorDriver(self._services, self._topic, "groups")
        settings = GroupSettings.of(self._services.config)
        self.coordinator = GroupCoordinator(settings, self, self._driver.wake, on_generation=self._on_generation)
        self._driver.attach(self.coordinator, lambda partition: self.coordinator.begin_load(partition.index))

    def open(self) -> Deferred[None]:
        """Coordinate the groups that there are; fires when they are loaded."""
        return self._driver.open()

    def observe(self, observer: Callable[[NewGeneration], object]) -> None:
        """Call `observer` with every new generation of a group."""
        self._observers.append(observer)

    def _on_generation(self, new: NewGeneration) -> None:
        for observer in self._observers:
            observer(new)

    def close(self) -> None:
        """Answer whoever waits, and be no group's coordinator any more."""
        self._driver.close()

    async def ensure_topic(self) -> None:
        """Make `__consumer_offsets` if it is not there; KafkaError if it cannot be made."""
        await self._topic.ensure()

    def append(
        self,
        partition: int,
        records: Collection[Record],
        done: AppendCallback,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Append records of the coordinator, perhaps as part of a producer's transaction; when the flush policy asks
        for it, done is when they are on the disk."""
        self._topic.append(partition, records, done, producer)

    # -- what the catalog tells ------------------------------------------------------------------------------------

    def on_topic_created(self, topic: Topic) -> None:
        """Maybe it is the one that was made on demand."""
        self._driver.on_topic_created(topic)

    def on_partition_led(self, topic: str, index: int) -> None:
        """A partition has got its log late."""
        self._driver.on_partition_led(topic, index)

    async def on_topic_deleted(self, topic: Topic) -> None:
        """Forget the offsets of partitions that are gone; forget all groups if they were kept in that topic.

        `__consumer_offsets` is created again at once if groups have members. A member that finds a coordinator learns
        there that it is unknown, and joins again; without one, librdkafka may search until its session is over.
        """
        has_members = self.coordinator.has_members
        self._driver.on_topic_deleted(topic)
        if topic.name == OFFSETS_TOPIC:
            if has_members:
                ensureDeferred(self.ensure_topic()).addErrback(
                    lambda failure: log.error(
                        "{topic} was not created again: {why}", topic=topic.name, why=failure.value
                    )
                )
        else:
            gone = [(topic.name, index) for index in topic.partitions]
            await self._services.runtime.slices.run(
                self.coordinator.remove_partitions(gone, self._services.runtime.now_ms())
            )

    def on_partitions_added(self, topic: Topic, partitions: Sequence[int]) -> None:
        """Groups stay where they are until the next start."""

    def on_config_changed(self, topic: Topic) -> None:
        """Nothing of it concerns groups."""


def offsets_topic_settings(config: BrokerConfig) -> dict[str, str]:
    """The settings that `__consumer_offsets` is made with."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
    }


def _offsets_topic(services: LogServices) -> InternalTopic:
    config = services.config
    return InternalTopic(
        services,
        OFFSETS_TOPIC,
        config.integer("offsets.topic.num.partitions"),
        offsets_topic_settings(config),
        config.integer("offsets.load.buffer.size"),
        Codec(config.integer("offsets.topic.compression.codec")),
    )
