"""The broker: what handlers work with, and the partitions that this node leads.

It stands between the catalog, which says what topics there are, and the logs, which hold them: a topic that the catalog
shows gets logs here, and one that it drops loses them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, DeferredList, DeferredLock, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from pylogbroker.broker.api import Api
from pylogbroker.broker.apis import APIS
from pylogbroker.broker.auto_creation import AutoCreation
from pylogbroker.broker.catalog import Catalog
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.deferred_actions import DeferredActions
from pylogbroker.broker.dynamic_settings import DynamicSettings
from pylogbroker.broker.fetch.conversion import ConversionCache
from pylogbroker.broker.fetch.sessions import FetchSessions
from pylogbroker.broker.group_service import GroupService
from pylogbroker.broker.jobs.log_cleaner import LogCleaner
from pylogbroker.broker.jobs.log_maintenance import LogMaintenance
from pylogbroker.broker.log_rate_limit import LogRateLimit
from pylogbroker.broker.partitions.delete_policies import DeletePolicies, MissingPolicies
from pylogbroker.broker.partitions.group_commit import GroupCommit
from pylogbroker.broker.partitions.log_config import log_config
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.producer_ids import ProducerIds
from pylogbroker.broker.request_limits import PartitionAllowance
from pylogbroker.broker.slices import Slices
from pylogbroker.broker.threads import InThread
from pylogbroker.broker.topic_store import TopicStore
from pylogbroker.broker.transaction_service import TransactionService
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.errors import ErrorCode, InvalidRecords, KafkaError, StorageFailure
from pylogbroker.groups import GroupCoordinator
from pylogbroker.interfaces import ITree
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS, Topic, check_name
from pylogbroker.storage import DeletedDirectory, Log, LogConfig, LogManager
from pylogbroker.storage.checkpoints import TopicPartition
from pylogbroker.storage.formatting import listed
from pylogbroker.transactions import TransactionCoordinator

T = TypeVar("T")
_REOPENED_PER_ROUND_MAX = 100  # logs that are made without a pause
log = Logger()


class DelayedRequest(Protocol):
    """A request that waits for something to happen."""

    def expire(self) -> None:
        """Answer with what there is."""


@attrs.define(eq=False)
class Broker:
    """One node.  Made by `pylogbroker.tap`; everything here runs on the reactor thread.

    `in_thread` runs a blocking call in a worker thread and gives a Deferred of its result; `in_reading_thread` runs one
    that hardly does more than to wait for the disk, in a thread that gives way to all others.
    """

    config: BrokerConfig
    clock: IReactorTime
    node_id: int
    cluster_id: str
    tree: ITree
    logs: LogManager
    in_thread: InThread
    in_reading_thread: InThread
    apis: tuple[Api, ...] = APIS
    delete_policies: DeletePolicies = attrs.field(factory=DeletePolicies)
    catalog: Catalog = attrs.field(init=False)
    auto_creation: AutoCreation = attrs.field(init=False)
    dynamic_settings: DynamicSettings = attrs.field(init=False)
    producer_ids: ProducerIds = attrs.field(init=False)
    fetch_sessions: FetchSessions = attrs.field(init=False)
    converted: ConversionCache = attrs.field(factory=ConversionCache, init=False)
    group_commit: GroupCommit = attrs.field(init=False)
    log_maintenance: LogMaintenance = attrs.field(init=False)
    cleaning: LogCleaner = attrs.field(init=False)
    group_service: GroupService = attrs.field(init=False)
    transaction_service: TransactionService = attrs.field(init=False)
    partitions: dict[tuple[str, int], Partition] = attrs.field(factory=dict, init=False)
    listeners: dict[str, Listener] = attrs.field(factory=dict, init=False)
    waiting: set[DelayedRequest] = attrs.field(factory=set, init=False)
    log_rate_limit: LogRateLimit = attrs.field(factory=LogRateLimit, init=False)
    _missing_policies: MissingPolicies = attrs.field(init=False)
    _configuring: DeferredLock = attrs.field(factory=DeferredLock, init=False)
    deferred_actions: DeferredActions = attrs.field(init=False)
    coordinators_loaded: Deferred[Any] = attrs.field(init=False)  # set by `open`
    slices: Slices = attrs.field(init=False)
    fetch_max_bytes: int = attrs.field(init=False)
    rack: str | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        config = self.config
        config.add_topic_check(self.delete_policies.check)
        self._missing_policies = MissingPolicies(self.clock, self.log_rate_limit)
        self.catalog = Catalog(
            TopicStore(self.tree, self.in_thread), config, lambda: [self.node_id], self._is_due, self._open_partitions
        )
        self.auto_creation = AutoCreation(self.catalog, self.clock, self._is_due)
        self.dynamic_settings = DynamicSettings(self.tree, config, self.node_id)
        self.producer_ids = ProducerIds(self.tree, self.node_id, self._is_due)
        self.fetch_sessions = FetchSessions(config.integer("max.incremental.fetch.session.cache.slots"))
        self.group_commit = GroupCommit(self.in_thread)
        self.log_maintenance = LogMaintenance(self)
        self.cleaning = LogCleaner(self)
        self.group_service = GroupService(self)
        self.transaction_service = TransactionService(self)
        self.deferred_actions = DeferredActions(self.clock)
        self.slices = Slices(self.clock)
        self.fetch_max_bytes = config.integer("fetch.max.bytes")
        self.rack = config.optional_text("broker.rack")

    @property
    def groups(self) -> GroupCoordinator:
        """Who consumes what."""
        return self.group_service.coordinator

    @property
    def transactions(self) -> TransactionCoordinator:
        """Who writes what as one."""
        return self.transaction_service.coordinator

    def now_ms(self) -> int:
        """The time of day, in milliseconds since 1970."""
        return int(self.clock.seconds() * 1000)

    # -- start and stop ------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Put the changed settings in force, lead every partition that the catalog shows; then follow its changes."""
        await self.dynamic_settings.open()
        await self.catalog.open(self.slices)
        async for topic in self.slices.over(tuple(self.catalog.topics.values())):
            await self._open_partitions(topic, topic.partitions, is_new=False)
            await self._configure(topic)
        self._tell_of_unowned()
        self.catalog.subscribe(self)
        self.coordinators_loaded = DeferredList([self.group_service.open(), self.transaction_service.open()])
        await self.catalog.finish_deletions()
        self.config.observe(self._on_settings_changed)
        self.log_maintenance.start()
        self.cleaning.start()

    def _tell_of_unowned(self) -> None:
        by_reason: dict[str, list[str]] = {}
        for directory in self.logs.foreign.values():
            by_reason.setdefault(directory.reason, []).append(directory.path)
        for reason, found in sorted(by_reason.items()):
            log.warn("left alone, not served, because each {reason}: {paths}", reason=reason, paths=listed(found))

    def release(self) -> None:
        """The broker stops: answer whoever waits."""
        self.auto_creation.stop()
        self.log_maintenance.stop()
        self.cleaning.stop()
        self.slices.stop()
        self.transaction_service.close()
        self.group_service.close()
        for waiting in tuple(self.waiting):
            waiting.expire()

    # -- what handlers ask ---------------------------------------------------------------------------------------

    def find(self, topic: str | UUID, index: int) -> Partition:
        """The partition of a topic, by name or id; KafkaError if it is not here or its log directory failed."""
        if isinstance(topic, UUID):
            topic = self.catalog.require_id(topic).name
        partition = self.partitions.get((topic, index))
        if partition is not None:
            return partition
        found = self.catalog.topics.get(topic)
        if found is not None and index in found.partitions:
            raise StorageFailure(f"the log of {topic}-{index} is in a directory that failed")
        raise KafkaError(f"there is no partition {topic}-{index}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def find_topic(self, name: str, to_create: PartitionAllowance | None) -> Topic:
        """Find the topic of that name; KafkaError if there is none.

        If the allowance `to_create` topics covers it, its creation begins and goes on in the background.  One that is
        not covered is created when the client asks again.
        """
        topic = self.catalog.topics.get(name)
        if topic is not None:
            return topic
        check_name(name)
        may_create = name not in INTERNAL_TOPICS and self.config.boolean("auto.create.topics.enable")
        if may_create and to_create is not None and to_create.left >= self.config.integer("num.partitions"):
            self.auto_creation.request(name, to_create)
        raise KafkaError(f"there is no topic {name!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def address(self, context: RequestContext) -> tuple[str, int]:
        """Where a client that came over the listener of `context` finds this broker."""
        listener = self.listeners[context.listener]
        return listener.advertised_host or context.local_host, listener.advertised_port

    # -- what the catalog tells ----------------------------------------------------------------------------------

    async def on_topic_created(self, topic: Topic) -> None:
        await self._configure(topic)
        self.cleaning.warn_if_off()

    async def on_partitions_added(self, topic: Topic, partitions: Sequence[int]) -> None:
        await self._configure(topic)

    async def on_topic_deleted(self, topic: Topic) -> None:
        """Take the topic's logs away, safely on the disk before the topic is forgotten; then remove their files."""
        deleted: list[DeletedDirectory] = []
        kept: dict[str, list[TopicPartition]] = {}
        async for index in self.slices.over(topic.partitions):
            partition = self.partitions.pop((topic.name, index), None)
            if partition is not None:
                partition.close()
                self.cleaning.abort_cleaning(partition.log)
            try:
                found = self.logs.delete(topic.name, index)
            except StorageFailure as failure:
                kept.setdefault(str(failure), []).append((topic.name, index))
            else:
                deleted += [found] if found is not None else []
        for why, keys in kept.items():
            log.error("{partitions} left on the disk: {why}", partitions=_listed(keys), why=why)
        if deleted:
            await self.in_thread(self._sync_deletions, deleted)
            self.in_thread(_remove, deleted)

    def _sync_deletions(self, deleted: Sequence[DeletedDirectory]) -> None:
        """Make sure that deleted logs do not return after a loss of power.  Blocks."""
        for notice in self.logs.sync_deletions(deleted):
            log.error("deleted logs may return after a loss of power: {why}", why=notice)

    async def on_config_changed(self, topic: Topic) -> None:
        await self._configure(topic)
        self.cleaning.warn_if_off()

    def _on_settings_changed(self, names: frozenset[str]) -> None:
        """The broker's own settings changed, and with them the defaults of topics."""
        ensureDeferred(self._configure_all()).addErrback(
            lambda failure: log.failure("topics could not be given the broker's new settings", failure)
        )

    async def _configure_all(self) -> None:
        async for topic in self.slices.over(tuple(self.catalog.topics.values())):
            await self._configure(topic)
        self.cleaning.warn_if_off()

    def request_failed(self, failed: Log, why: StorageFailure) -> None:
        """A request failed for the disk under a log: if that may pass, as when it is full, tell it now and then."""
        directory = os.path.dirname(failed.path)
        if failed.broken:
            self.storage_failed(failed)
        elif self.log_rate_limit.is_due(directory, self.now_ms()):
            log.error("requests to {directory} fail: {why}", directory=directory, why=why)

    def log_rejected_records(self, partition: Partition, why: InvalidRecords) -> None:
        """Log, once a minute for each topic, that a producer's records break the topic's rules."""
        if self._is_due(f"refused records of {partition.topic}"):
            log.warn(
                "refused records for {topic}-{partition}: {why}",
                topic=partition.topic,
                partition=partition.index,
                why=why.record_errors[0][1],
            )

    def _is_due(self, about: str) -> bool:
        return self.log_rate_limit.is_due(about, self.now_ms())

    def storage_failed(self, failed: Log) -> None:
        """A log failed: if its disk did, and is not just full, all partitions of its directory are gone."""
        self._offline(self.logs.isolate(failed))

    def directory_failed(self, path: str, reason: str) -> None:
        """A log directory failed: all of its partitions are gone."""
        self._offline(self.logs.fail_directory(path, reason))

    def _offline(self, keys: Sequence[TopicPartition]) -> None:
        if keys:
            log.error("{partitions} offline: {why}", partitions=_listed(keys), why=self.logs.offline[keys[0]])
        for key in keys:
            partition = self.partitions.pop(key, None)
            if partition is not None:
                partition.close()

    async def _open_partitions(self, topic: Topic, indexes: Collection[int], is_new: bool = True) -> None:
        """Open or make the logs of a topic's partitions, and serve them."""
        config = log_config(self.config.topic(topic.overrides))
        failed: dict[str, list[TopicPartition]] = {}
        recreated: list[TopicPartition] = []
        if is_new and self.logs.has_stale_checkpoints([(topic.name, index) for index in indexes]):
            await self.in_thread(self.logs.drop_stale_checkpoints, [(topic.name, index) for index in indexes])
        async for index in self.slices.over(indexes):
            key = topic.name, index
            present = self.logs.logs.get(key)
            try:
                self._open_partition(topic, index, config, is_new)
            except StorageFailure as failure:
                failed.setdefault(str(failure), []).append(key)
                continue
            if self.logs.logs[key] is not present and not is_new:
                recreated.append(key)
        for why, keys in failed.items():
            log.error("{partitions} offline: {why}", partitions=_listed(keys), why=why)
        if recreated:
            log.warn("{partitions} in no log directory: recreated empty at offset 0", partitions=_listed(recreated))

    def _open_partition(self, topic: Topic, index: int, config: LogConfig, is_new: bool) -> None:
        """Serve a partition; StorageFailure if it has no log and none can be made."""
        found = self._open_log(topic, index, config, is_new)
        found.high_watermark = found.log_end_offset
        epoch = topic.partitions[index].leader_epoch
        if epoch > found.latest_epoch:
            found.assign_epoch(epoch)
        self.partitions[topic.name, index] = Partition(topic.name, index, found, epoch, is_internal=topic.internal)

    def _open_log(self, topic: Topic, index: int, config: LogConfig, is_new: bool) -> Log:
        now_ms = self.now_ms()
        found = self.logs.create(
            topic.name, index, config, now_ms, topic_id=topic.id, is_new=is_new, report=_log_finding
        )
        if found.byte_addressed != config.byte_addressed:
            raise StorageFailure(f"{found.path}: the log's message format is not the topic's; one of them is of 0.7")
        return found

    async def reopen_offline_partitions(self, tried: set[TopicPartition]) -> None:
        """Try again to lead what has no log because it could not be made, up to the first that fails again.

        That one is added to `tried`: those come last the next time.
        """
        if len(self.logs.online) < len(self.logs.directories):  # a log that is missing may lie there
            return
        missing: list[TopicPartition] = []
        async for name in self.slices.over(tuple(self.catalog.topics)):
            topic = self.catalog.topics.get(name)
            if topic is not None:
                missing += ((name, index) for index in topic.partitions if self._is_missing((name, index)))
        async for key in self.slices.over(sorted(missing, key=tried.__contains__)[:_REOPENED_PER_ROUND_MAX]):
            topic = self.catalog.topics.get(key[0])
            if topic is None or not self._is_missing(key):  # any more
                continue
            try:
                self._open_partition(topic, key[1], log_config(self.config.topic(topic.overrides)), is_new=True)
            except StorageFailure as failure:
                log.error("{partitions} offline: {why}", partitions=_listed([key]), why=failure)
                if key in tried:
                    tried.clear()
                tried.add(key)
                return
            await self._configure(topic)
            log.info("{topic}-{partition} is online now", topic=key[0], partition=key[1])
            self.group_service.on_partition_led(*key)
            self.transaction_service.on_partition_led(*key)

    def note_missing_policies(self) -> None:
        """Log again which topics lack a delete policy, so that the reason why their logs grow is not forgotten."""
        for name in self._missing_policies.take_noted():
            topic = self.catalog.topics.get(name)
            if topic is not None:
                settings = self.config.topic(topic.overrides)
                self.delete_policies.of(settings, partial(self._missing_policies.note, name))

    def _is_missing(self, key: TopicPartition) -> bool:
        return key not in self.partitions and key not in self.logs.offline

    async def _configure(self, topic: Topic) -> None:
        """Let a topic's partitions go by its settings; one after the other, so that the newest settings win."""
        await self._configuring.acquire()
        try:
            await self._apply_settings(self.catalog.topics.get(topic.name, topic))
        finally:
            self._configuring.release()

    async def _apply_settings(self, topic: Topic) -> None:
        settings = self.config.topic(topic.overrides)
        config = log_config(settings)
        policies = self.delete_policies.of(settings, partial(self._missing_policies.note, topic.name))
        min_insync_replicas = settings.integer("min.insync.replicas")
        may_down_convert = settings.boolean("message.downconversion.enable")
        async for index in self.slices.over(topic.partitions):
            partition = self.partitions.get((topic.name, index))
            if partition is not None:
                partition.log.config = config
                partition.delete_policies = policies
                partition.min_insync_replicas = min(min_insync_replicas, len(topic.partitions[index].replicas))
                partition.may_down_convert = may_down_convert


def _log_finding(found: object) -> None:
    log.warn("{found}", found=found)


def _remove(deleted: Iterable[DeletedDirectory]) -> None:
    for directory in deleted:
        directory.remove()


def _listed(keys: Sequence[TopicPartition]) -> str:
    """Partitions by name, but not all if they are many, as the subject of a sentence with the verb "to be"."""
    return f"{_named(keys)} {'is' if len(keys) == 1 else 'are'}"


def _named(keys: Sequence[TopicPartition]) -> str:
    return listed([f"{topic}-{index}" for topic, index in keys])
