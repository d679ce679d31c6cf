"""The group coordinator in its broker: where its records are kept, how it starts, and what drives its clock.

`__consumer_offsets` is made when the first coordinator is asked for. From then on, and at every start,

    topic is there --> each partition: COORDINATOR_LOAD_IN_PROGRESS --log read and replayed--> served
                                                    |
                                                    +--log cannot be read--> NOT_COORDINATOR

The log is read and replayed slice by slice in a worker thread, one partition after the other; only the making of the
groups is done on the reactor thread. A partition that cannot be read is not served at all: answering as if its groups
had never committed would send their consumers back to the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.partition import Partition
from pylogbroker.broker.topics import Topic
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.groups import GroupCoordinator, GroupSettings, Loading, Stored
from pylogbroker.records import Codec, Record, build, entries
from pylogbroker.storage import FileRegion, Origin

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker

OFFSETS_TOPIC = "__consumer_offsets"

log = Logger()


@attrs.define(eq=False)
class GroupStore:
    """Keeps the coordinator's records in the broker's logs, and lets the coordinator know what happens.

    It is the coordinator's store, and a listener of the catalog.
    """

    _broker: Broker
    coordinator: GroupCoordinator = attrs.field(init=False)
    _codec: Codec = attrs.field(init=False)
    _alarm: IDelayedCall | None = attrs.field(default=None, init=False)
    _is_open: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        config = self._broker.config
        self.coordinator = GroupCoordinator(GroupSettings.of(config), self, self._wake)
        self._codec = Codec(config.integer("offsets.topic.compression.codec"))

    # -- start and stop --------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Coordinate the groups that there are. The broker leads its partitions by now."""
        self._is_open = True
        self._broker.catalog.subscribe(self)
        topic = self._broker.catalog.topics.get(OFFSETS_TOPIC)
        if topic is not None:
            self._load(topic)

    def close(self) -> None:
        """Answer whoever waits, and be no group's coordinator any more."""
        self._is_open = False
        self.coordinator.close(self._broker.now_ms())
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()

    async def ensure_topic(self) -> None:
        """Make `__consumer_offsets` if it is not there; KafkaError if it cannot be made."""
        if OFFSETS_TOPIC in self._broker.catalog.topics:
            return
        config = self._broker.config
        try:
            await self._broker.catalog.create(
                OFFSETS_TOPIC,
                config.integer("offsets.topic.num.partitions"),
                1,
                overrides={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
                },
            )
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    # -- what the catalog tells ------------------------------------------------------------------------------------

    def on_topic_created(self, topic: Topic) -> None:
        """The topic that was made on demand is there."""
        if topic.name == OFFSETS_TOPIC and self._is_open:
            self._load(topic)

    def on_partition_led(self, topic: str, index: int) -> None:
        """A partition has got its log late."""
        if topic == OFFSETS_TOPIC and self._is_open:
            ensureDeferred(self._load_all(self._begin([index])))

    def on_topic_deleted(self, topic: Topic) -> None:
        """Offsets of partitions that are no more are forgotten; so is everything if it was kept in that topic."""
        now_ms = self._broker.now_ms()
        if topic.name == OFFSETS_TOPIC:
            self.coordinator.close(now_ms)
        else:
            self.coordinator.remove_partitions([(topic.name, index) for index in topic.partitions], now_ms)

    def on_partitions_added(self, topic: Topic, partitions: Sequence[int]) -> None:
        """Groups stay where they are until the next start."""

    def on_config_changed(self, topic: Topic) -> None:
        """Nothing of it concerns groups."""

    # -- loading ---------------------------------------------------------------------------------------------------

    def _load(self, topic: Topic) -> None:
        self.coordinator.partitions = len(topic.partitions)
        ensureDeferred(self._load_all(self._begin(topic.partitions)))

    def _begin(self, indexes: Iterable[int]) -> list[tuple[Partition, Loading]]:
        loadings = []
        for index in indexes:
            partition = self._broker.partitions.get((OFFSETS_TOPIC, index))
            if partition is not None:
                loadings.append((partition, self.coordinator.begin_load(index)))
        return loadings

    async def _load_all(self, loadings: list[tuple[Partition, Loading]]) -> None:
        for partition, loading in loadings:
            try:
                await self._replay(partition, loading)
            except Exception:
                log.failure("groups of {topic}-{index} are not served", topic=OFFSETS_TOPIC, index=partition.index)
                self.coordinator.unload(partition.index, self._broker.now_ms())
            else:
                self.coordinator.finish_load(loading, self._broker.now_ms())
            for problem in loading.problems:
                log.warn("{topic}-{index}: {problem}", topic=OFFSETS_TOPIC, index=partition.index, problem=problem)

    async def _replay(self, partition: Partition, loading: Loading) -> None:
        slice_bytes = self._broker.config.integer("offsets.load.buffer.size")
        records = partition.log
        offset = records.log_start_offset
        while self._is_open and offset < records.log_end_offset:
            region = records.read(offset, slice_bytes, upto=records.log_end_offset)
            if region is None:
                break
            offset = await self._broker.in_thread(_replay_region, loading, region)

    # -- storing ---------------------------------------------------------------------------------------------------

    def append(self, partition: int, records: Sequence[Record], done: Stored) -> None:
        """Append records of the coordinator; when the flush policy asks for it, done is when they are on the disk."""
        now_ms = self._broker.now_ms()
        found: Partition | None = None
        try:
            found = self._broker.find(OFFSETS_TOPIC, partition)
            appended = found.append(build(records, codec=self._codec), now_ms, Origin.COORDINATOR)
        except KafkaError as error:
            if found is not None and isinstance(error, StorageFailure):
                self._broker.request_failed(found.log, error)
            done(error.code, now_ms)
            return
        if not appended.must_sync:
            done(ErrorCode.NONE, now_ms)
            return
        synced: Deferred[None] = self._broker.group_commit.sync(found.log)
        synced.addBoth(self._synced, found, done).addErrback(_report)

    def _synced(self, result: Failure | None, partition: Partition, done: Stored) -> None:
        if isinstance(result, Failure):
            partition.sync_failed()
            if isinstance(result.value, StorageFailure):
                self._broker.request_failed(partition.log, result.value)
            done(_code_of(result), self._broker.now_ms())
        else:
            partition.synced()
            done(ErrorCode.NONE, self._broker.now_ms())

    # -- time ------------------------------------------------------------------------------------------------------

    def _wake(self, due_ms: int) -> None:
        delay = max(due_ms / 1000 - self._broker.clock.seconds(), 0)
        if self._alarm is None or not self._alarm.active():
            self._alarm = self._broker.clock.callLater(delay, self._ring)
        elif self._alarm.getTime() > self._broker.clock.seconds() + delay:
            self._alarm.reset(delay)

    def _ring(self) -> None:
        """It is time, but heartbeats that came while the reactor was busy may not have been read: let them go first."""
        self._alarm = self._broker.clock.callLater(0, self._tick)

    def _tick(self) -> None:
        try:
            self.coordinator.tick(self._broker.now_ms())
        finally:
            due_ms = self.coordinator.next_deadline()
            if due_ms is not None:
                self._wake(due_ms)


def _replay_region(loading: Loading, region: FileRegion) -> int:
    """Replay a piece of the log; where the next one begins. Runs in a worker thread."""
    pieces = list(entries(region.read()))
    loading.replay(pieces)
    return pieces[-1].next_offset


def _code_of(failure: Failure) -> ErrorCode:
    error = failure.value
    return error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR


def _report(failure: Failure) -> None:
    log.failure("an answer of the group coordinator failed", failure)
