"""The transaction coordinator in its broker: records are kept in `__transaction_state`, markers go to partitions.

A marker for a partition of `__consumer_offsets` ends a transaction of offsets: once it is in the log, the groups of
that partition are told.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.coordinators.driver import CoordinatorDriver
from pylogbroker.broker.coordinators.group_service import OFFSETS_TOPIC
from pylogbroker.broker.coordinators.internal_topic import InternalTopic
from pylogbroker.broker.coordinators.partition_writer import append
from pylogbroker.broker.services import LogServices, ProducerIdSource
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import GroupCoordinator
from pylogbroker.metadata.topic_names import Topic
from pylogbroker.records import Record, end_marker
from pylogbroker.storage.formatting import counted
from pylogbroker.transactions import (
    AppendCallback,
    MarkersWritten,
    ProducerIdTaken,
    TopicPartition,
    TransactionCoordinator,
    TransactionMarker,
    TransactionReplay,
    TransactionSettings,
    TransactionTimeout,
)

TRANSACTIONS_TOPIC = "__transaction_state"

log = Logger()


@attrs.define(eq=False)
class TransactionService:
    """Does for the coordinator what it cannot do itself, and lets it know what happens.

    It is the coordinator's store, and a listener of the catalog.
    """

    _services: LogServices
    _producer_ids: ProducerIdSource
    _groups: GroupCoordinator
    coordinator: TransactionCoordinator = attrs.field(init=False)
    _topic: InternalTopic = attrs.field(init=False)
    _driver: CoordinatorDriver[TransactionReplay] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._topic = _transactions_topic(self._services)
        self._driver = CoordinatorDriver(self._services, self._topic, "transactions")
        settings = TransactionSettings.of(self._services.config)
        self.coordinator = TransactionCoordinator(settings, self, self._driver.wake, _log_timeout)
        self._driver.attach(
            self.coordinator, lambda partition: self.coordinator.begin_load(partition.index, partition.leader_epoch)
        )

    def open(self) -> Deferred[None]:
        """Coordinate the transactions that there are; fires when they are loaded."""
        return self._driver.open()

    def close(self) -> None:
        """Answer whoever waits, and be no transaction's coordinator any more."""
        self._driver.close()

    async def ensure_topic(self) -> None:
        """Make `__transaction_state` if it is not there; KafkaError if it cannot be made."""
        await self._topic.ensure()

    # -- what the coordinator asks for -----------------------------------------------------------------------------

    def append(self, partition: int, records: Sequence[Record], done: AppendCallback, on_disk: bool = False) -> None:
        """Append records of the coordinator; done is when they are on the disk if it, or the flush policy, asks so."""
        self._topic.append(partition, records, done, on_disk=on_disk)

    def take_producer_id(self, done: ProducerIdTaken) -> None:
        """Give out a producer id that nobody else has."""
        ensureDeferred(self._take_producer_id(done))

    async def _take_producer_id(self, done: ProducerIdTaken) -> None:
        try:
            producer_id = await self._producer_ids.take()
        except KafkaError:  # it has been told
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, self._services.runtime.now_ms())
        except Exception:
            log.failure("no producer id could be taken")
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, self._services.runtime.now_ms())
        else:
            done(ErrorCode.NONE, producer_id, self._services.runtime.now_ms())

    def write_markers(self, marker: TransactionMarker, done: MarkersWritten) -> None:
        """Append the marker to each of its partitions; done is when all are in, or have failed."""
        ensureDeferred(_Markers(self._services, self._groups, marker, done).write())

    # -- what the catalog tells ------------------------------------------------------------------------------------

    def on_topic_created(self, topic: Topic) -> None:
        """Maybe it is the one that was made on demand."""
        self._driver.on_topic_created(topic)

    def on_partition_led(self, topic: str, index: int) -> None:
        """A partition has got its log late."""
        self._driver.on_partition_led(topic, index)

    def on_topic_deleted(self, topic: Topic) -> None:
        """All transactions are forgotten if they were kept in that topic."""
        self._driver.on_topic_deleted(topic)

    def on_partitions_added(self, topic: Topic, partitions: Sequence[int]) -> None:
        """Transactions stay where they are until the next start."""

    def on_config_changed(self, topic: Topic) -> None:
        """Nothing of it concerns transactions."""


@attrs.define(eq=False)
class _Markers:
    """One marker on its way into its partitions."""

    _services: LogServices
    _groups: GroupCoordinator
    _marker: TransactionMarker
    _done: MarkersWritten
    _results: dict[TopicPartition, ErrorCode] = attrs.field(factory=dict, init=False)

    async def write(self) -> None:
        marker = self._marker
        now_ms = self._services.runtime.now_ms()
        batch = end_marker(
            marker.committed, marker.coordinator_epoch, marker.producer_id, marker.producer_epoch, now_ms
        )
        if not marker.partitions:
            self._done({}, now_ms)
        async for key in self._services.runtime.slices.over(marker.partitions):
            self._write(key, batch)

    def _write(self, key: TopicPartition, batch: bytes) -> None:
        def written(error: ErrorCode, now_ms: int) -> None:
            self._written(key, error, now_ms)

        append(self._services, key, batch, written)

    def _written(self, key: TopicPartition, error: ErrorCode, now_ms: int) -> None:
        marker = self._marker
        if key[0] == OFFSETS_TOPIC and not error:
            self._groups.end_transaction(key[1], marker.producer_id, marker.committed, now_ms)
        self._results[key] = error
        if len(self._results) == len(marker.partitions):
            self._done(self._results, now_ms)


def _log_timeout(found: TransactionTimeout) -> None:
    log.info(
        "the transaction of {name!r} is aborted: it was open for {open} s in {partitions}, its timeout is {timeout} s",
        name=found.transactional_id,
        open=round(found.open_ms / 1000),
        partitions=counted(found.partitions, "partition"),
        timeout=f"{found.timeout_ms / 1000:g}",
    )


def transactions_topic_settings(config: BrokerConfig) -> dict[str, str]:
    """The settings that `__transaction_state` is made with."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(config.integer("transaction.state.log.min.isr")),
        "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
        "unclean.leader.election.enable": "false",
    }


def _transactions_topic(services: LogServices) -> InternalTopic:
    config = services.config
    return InternalTopic(
        services,
        TRANSACTIONS_TOPIC,
        config.integer("transaction.state.log.num.partitions"),
        transactions_topic_settings(config),
        config.integer("transaction.state.log.load.buffer.size"),
    )
