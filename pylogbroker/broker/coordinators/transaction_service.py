"""The transaction coordinator in its broker; `__transaction_state` keeps its records.

A marker in `__consumer_offsets` ends a transaction of offsets, so the groups of its partition get it too.
"""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.coordinators.driver import CoordinatorDriver
from pylogbroker.broker.coordinators.internal_topic import InternalTopic, replication_factor
from pylogbroker.broker.coordinators.partition_writer import PartitionWriter
from pylogbroker.broker.services import LogServices, ProducerIdSource
from pylogbroker.config import BrokerConfig
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import GroupCoordinator
from pylogbroker.metadata.delta import Delta
from pylogbroker.metadata.image import ClusterImage, TopicImage
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pylogbroker.records import end_marker
from pylogbroker.storage.formatting import counted
from pylogbroker.transactions import (
    MarkersCallback,
    ProducerIdCallback,
    TransactionCoordinator,
    TransactionMarker,
    TransactionSettings,
    TransactionTimeout,
)
from pylogbroker.transactions.shard import ReplayedTransactions
from pylogbroker.transactions.transaction import TransactionShard

log = Logger()


@attrs.define(eq=False)
class TransactionService:
    """The coordinator, and its port to producer ids and partitions."""

    _services: LogServices
    _producer_ids: ProducerIdSource
    _groups: GroupCoordinator
    coordinator: TransactionCoordinator = attrs.field(init=False)
    _writer: PartitionWriter = attrs.field(init=False)
    _topic: InternalTopic = attrs.field(init=False)
    _driver: CoordinatorDriver[ReplayedTransactions, TransactionShard] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        services = self._services
        self._writer = PartitionWriter(services)
        self._topic = _transactions_topic(services, self._writer)
        settings = TransactionSettings.of(services.config)
        self.coordinator = TransactionCoordinator(settings, self._topic, self, _log_timeout)
        self._driver = CoordinatorDriver(services.runtime, self._topic, self.coordinator.runtime, "transactions")

    def open(self) -> Deferred[None]:
        return self._driver.open()

    def close(self) -> None:
        self._driver.close()

    async def ensure_topic(self) -> None:
        await self._topic.ensure()

    def allocate_producer_id(self, done: ProducerIdCallback) -> None:
        ensureDeferred(self._allocate_producer_id(done))

    async def _allocate_producer_id(self, done: ProducerIdCallback) -> None:
        error, producer_id = ErrorCode.COORDINATOR_NOT_AVAILABLE, -1
        try:
            producer_id = await self._producer_ids.take()
            error = ErrorCode.NONE
        except KafkaError:
            pass  # logged by the source
        except Exception:
            log.failure("cannot allocate a producer id")
        done(error, producer_id, self._services.runtime.now_ms())

    def write_markers(self, marker: TransactionMarker, done: MarkersCallback) -> None:
        """Append the marker to each of its partitions; call `done` after the last append."""
        ensureDeferred(self._write_markers(marker, done))

    async def _write_markers(self, marker: TransactionMarker, done: MarkersCallback) -> None:
        now_ms = self._services.runtime.now_ms()
        if not marker.partitions:
            done({}, now_ms)
        producer_id, committed = marker.producer_id, marker.committed
        batch = end_marker(committed, marker.coordinator_epoch, producer_id, marker.producer_epoch, now_ms)
        errors: dict[TopicPartition, ErrorCode] = {}

        def append(key: TopicPartition) -> None:
            def appended(error: ErrorCode, done_ms: int) -> None:
                if key[0] == OFFSETS_TOPIC and not error:
                    self._groups.end_transaction(key[1], producer_id, committed)
                errors[key] = error
                if len(errors) == len(marker.partitions):
                    done(errors, done_ms)

            self._writer.append(key, batch, appended)

        async for key in self._services.runtime.slices.over(marker.partitions):
            append(key)

    def unload_topic(self, topic: TopicImage) -> None:
        self._driver.unload_topic(topic)

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for change in delta:
            self._driver.on_change(change)

    def on_led(self, topic: str, index: int, epoch: int) -> None:
        self._driver.on_led(topic, index, epoch)

    def on_resigned(self, topic: str, index: int, epoch: int) -> None:
        self._driver.on_resigned(topic, index, epoch)

    def on_partition_led(self, topic: str, index: int) -> None:
        self._driver.on_partition_led(topic, index)

    def on_partition_offline(self, topic: str, index: int) -> None:
        self._driver.on_partition_offline(topic, index)


def _log_timeout(timeout: TransactionTimeout) -> None:
    log.info(
        "the transaction of {name!r} is aborted: it was open for {open} s in {partitions}, its timeout is {timeout} s",
        name=timeout.transactional_id,
        open=round(timeout.open_ms / 1000),
        partitions=counted(timeout.partitions, "partition"),
        timeout=f"{timeout.timeout_ms / 1000:g}",
    )


def transactions_topic_settings(config: BrokerConfig) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(config.integer("transaction.state.log.min.isr")),
        "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
        "unclean.leader.election.enable": "false",
    }


def _transactions_topic(services: LogServices, writer: PartitionWriter) -> InternalTopic:
    config = services.config
    return InternalTopic(
        services,
        writer,
        TRANSACTIONS_TOPIC,
        config.integer("transaction.state.log.num.partitions"),
        replication_factor(config, "transaction.state.log.replication.factor"),
        transactions_topic_settings(config),
        config.integer("transaction.state.log.load.buffer.size"),
    )
