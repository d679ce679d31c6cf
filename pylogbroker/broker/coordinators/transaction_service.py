"""The transaction coordinator in its broker; `__transaction_state` keeps its records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import attrs
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.coordinators.driver import CoordinatorDriver
from pylogbroker.broker.coordinators.internal_topic import InternalTopic, replication_factor
from pylogbroker.broker.coordinators.marker_writer import WAIT_MS, MarkerWriter
from pylogbroker.broker.coordinators.partition_writer import PartitionWriter
from pylogbroker.broker.services import Features, LogServices, ProducerIdSource
from pylogbroker.config import BrokerConfig
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.formatting import counted
from pylogbroker.groups import GroupCoordinator
from pylogbroker.metadata.delta import BrokerRegistered, BrokerUnregistered, Delta
from pylogbroker.metadata.feature_levels import TRANSACTION_VERSION
from pylogbroker.metadata.image import NO_LEADER, BrokerRegistration, ClusterImage
from pylogbroker.metadata.topic_names import TRANSACTIONS_TOPIC
from pylogbroker.transactions import (
    MarkersCallback,
    ProducerIdCallback,
    TransactionCoordinator,
    TransactionMarker,
    TransactionSettings,
    TransactionTimeout,
)
from pylogbroker.transactions.metadata import TRANSACTIONS_V2
from pylogbroker.transactions.shard import ReplayedTransactions
from pylogbroker.transactions.transaction import TransactionShard

if TYPE_CHECKING:
    from pylogbroker.broker.coordinators.marker_sender import MarkerErrors, MarkerSender
    from pylogbroker.broker.coordinators.verification_sender import VerificationSender

log = Logger()
_STATE_TIMEOUT_MS: Final = 60_000
"""Time to replicate a transaction's state: the producers' default of transaction.timeout.ms, for which Kafka waits."""


@attrs.define(eq=False, repr=False)
class TransactionService:
    """The coordinator, and its port to producer ids and partitions."""

    _services: LogServices
    _producer_ids: ProducerIdSource
    _groups: GroupCoordinator
    _broker_id: int
    _features: Features
    _sender: MarkerSender | None = None
    """None: no other broker leads partitions."""
    _verifier: VerificationSender | None = None
    """None: no other broker has coordinators."""
    coordinator: TransactionCoordinator = attrs.field(init=False)
    _markers: MarkerWriter = attrs.field(init=False)
    _topic: InternalTopic = attrs.field(init=False)
    driver: CoordinatorDriver[ReplayedTransactions, TransactionShard] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        services = self._services
        self._markers = MarkerWriter(services, PartitionWriter(services, WAIT_MS), self._groups)
        self._topic = _transactions_topic(services, PartitionWriter(services, _STATE_TIMEOUT_MS))
        settings = TransactionSettings.of(services.config)
        self.coordinator = TransactionCoordinator(settings, self._topic, self, _log_timeout)
        self.driver = CoordinatorDriver(services.runtime, self._topic, self.coordinator.runtime, "transactions")

    def open(self) -> Deferred[None]:
        return self.driver.open()

    def close(self) -> None:
        self.driver.close()
        for sender in self._senders:
            sender.close()

    async def ensure_topic(self) -> None:
        await self._topic.ensure()

    @property
    def transaction_version(self) -> int:
        return self._features.level(TRANSACTION_VERSION)

    def allocate_producer_id(self, done: ProducerIdCallback) -> None:
        run_in_background(log, self._allocate_producer_id(done), "a producer did not get its id")

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

    def append_markers(self, marker: TransactionMarker, done: MarkersCallback) -> None:
        """Append the marker to its partitions, which this broker leads; call `done` after the last append."""
        self._markers.append(marker, done)

    def write_markers(self, marker: TransactionMarker, done: MarkersCallback) -> None:
        """Append the marker, or send it to the leaders of its partitions; call `done` with all their errors."""
        if self._sender is None:
            self.append_markers(marker, done)
        else:
            run_in_background(log, self._write_to_all(self._sender, marker, done), "the end of markers failed")

    async def _write_to_all(self, sender: MarkerSender, marker: TransactionMarker, done: MarkersCallback) -> None:
        errors: MarkerErrors
        try:
            errors = await self._write_to_leaders(sender, marker)
        except Exception:
            log.failure("markers of a transaction were not written: they are written again")
            errors = dict.fromkeys(marker.partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
        done(errors, self._services.runtime.now_ms())

    async def _write_to_leaders(self, sender: MarkerSender, marker: TransactionMarker) -> MarkerErrors:
        runtime = self._services.runtime
        errors: dict[TopicPartition, ErrorCode] = {}
        led: list[TopicPartition] = []
        others: dict[int, list[TopicPartition]] = {}
        async for key in runtime.slices.over(marker.partitions):
            leader = self._leader(key)
            if leader is None:
                errors[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # the topic is deleted
            elif leader == NO_LEADER:
                errors[key] = ErrorCode.LEADER_NOT_AVAILABLE
            elif leader == self._broker_id:
                led.append(key)
            else:
                others.setdefault(leader, []).append(key)
        appended: Deferred[MarkerErrors] = Deferred()
        self.append_markers(
            attrs.evolve(marker, partitions=tuple(led)), lambda marker_errors, done_ms: appended.callback(marker_errors)
        )
        answers = [
            appended,
            *(sender.send(leader, attrs.evolve(marker, partitions=tuple(keys))) for leader, keys in others.items()),
        ]
        for answer in answers:
            errors |= await answer
        return errors

    def ask_coordinator(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> Deferred[ErrorCode] | None:
        """Verify that a transaction includes a partition; return None if this broker is to know that."""
        if self._verifier is None:
            return None
        coordinator = self._coordinator_of(transactional_id)
        if coordinator == self._broker_id:
            return None
        if coordinator is None or coordinator == NO_LEADER:
            return succeed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._verifier.ask(coordinator, transactional_id, producer_id, epoch, partition)

    def add_partition(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> Deferred[ErrorCode]:
        """Add a partition to a transaction, once the producer's last one is complete; wait for that only shortly."""
        runtime = self._services.runtime
        until_ms = runtime.now_ms() + self._services.config.add_partitions_to_txn_retry_backoff_max_ms

        async def add() -> ErrorCode:
            while True:
                error = await self._try_to_add(transactional_id, producer_id, epoch, partition)
                left_ms = until_ms - runtime.now_ms()
                if error is not ErrorCode.CONCURRENT_TRANSACTIONS or left_ms <= 0:
                    return error
                await self._pause(transactional_id, left_ms)

        return ensureDeferred(add())

    def _try_to_add(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> Deferred[ErrorCode]:
        coordinator = self._coordinator_of(transactional_id)
        if self._verifier is None or coordinator == self._broker_id:
            added: Deferred[ErrorCode] = Deferred()
            self.coordinator.add_partitions(
                transactional_id,
                producer_id,
                epoch,
                [partition],
                added.callback,
                self._services.runtime.now_ms(),
                TRANSACTIONS_V2,
            )
            return added
        if coordinator is None or coordinator == NO_LEADER:
            return succeed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._verifier.ask(coordinator, transactional_id, producer_id, epoch, partition, adds=True)

    def _pause(self, transactional_id: str, left_ms: int) -> Deferred[None]:
        """Wait for another attempt: until the end of a transaction is complete here, or for the backoff."""
        backoff_ms = self._services.config.add_partitions_to_txn_retry_backoff_ms
        over: Deferred[None] = Deferred()
        stop_waiting = self.coordinator.on_completion(transactional_id, lambda is_complete: end())
        wait_ms = left_ms if stop_waiting is not None else min(backoff_ms, left_ms)

        def end() -> None:
            if timer.active():
                timer.cancel()
            elif stop_waiting is not None:
                stop_waiting()
            over.callback(None)

        timer = self._services.runtime.clock.callLater(wait_ms / 1000, end)
        return over

    def _coordinator_of(self, transactional_id: str) -> int | None:
        return self._leader((TRANSACTIONS_TOPIC, self.coordinator.partition_for(transactional_id)))

    def _leader(self, key: TopicPartition) -> int | None:
        """Return the leader that the image has, or NO_LEADER; None without such a partition."""
        if key in self._services.partitions.led:
            return self._broker_id
        topic = self._services.metadata.topics.get(key[0])
        state = None if topic is None else topic.partitions.get(key[1])
        return None if state is None else state.leader

    @property
    def marker_requests(self) -> int:
        """Count the requests with markers to other brokers, since the start."""
        return 0 if self._sender is None else self._sender.requests

    @property
    def _senders(self) -> Iterable[MarkerSender | VerificationSender]:
        return (sender for sender in (self._sender, self._verifier) if sender is not None)

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for change in delta:
            self.driver.on_change(change)
            match change:
                case BrokerRegistered(BrokerRegistration(id=broker_id)) | BrokerUnregistered(broker_id):
                    for sender in self._senders:
                        sender.disconnect(broker_id)


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
        "min.insync.replicas": str(config.transaction_state_log_min_isr),
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }


def _transactions_topic(services: LogServices, writer: PartitionWriter) -> InternalTopic:
    config = services.config
    return InternalTopic(
        services,
        writer,
        TRANSACTIONS_TOPIC,
        config.transaction_state_log_num_partitions,
        replication_factor(config, "transaction.state.log.replication.factor"),
        transactions_topic_settings(config),
        config.transaction_state_log_load_buffer_size,
    )
