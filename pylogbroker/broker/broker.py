"""The broker: what handlers work with, and the partitions that this node leads.

It stands between the catalog, which says what topics there are, and the logs, which hold them: a topic that the catalog
shows gets logs here, and one that it drops loses them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from pylogbroker.broker.apis import APIS, Api
from pylogbroker.broker.auto_creation import AutoCreation
from pylogbroker.broker.catalog import Catalog
from pylogbroker.broker.cleaning import Cleaning
from pylogbroker.broker.complaints import Complaints
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.delete_policies import DeletePolicies, MissingPolicies
from pylogbroker.broker.dynamic_settings import DynamicSettings
from pylogbroker.broker.fetch_conversion import ConvertedPieces
from pylogbroker.broker.fetch_sessions import FetchSessions
from pylogbroker.broker.group_store import GroupStore
from pylogbroker.broker.housekeeping import Housekeeping
from pylogbroker.broker.log_config import log_config
from pylogbroker.broker.partition import Partition
from pylogbroker.broker.producer_ids import ProducerIds
from pylogbroker.broker.slices import Slices
from pylogbroker.broker.syncing import GroupCommit
from pylogbroker.broker.threads import InThread
from pylogbroker.broker.topic_store import TopicStore
from pylogbroker.broker.topics import INTERNAL_TOPICS, Topic, check_name
from pylogbroker.broker.transaction_store import TransactionStore
from pylogbroker.broker.turns import Turns
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.errors import ErrorCode, InvalidRecords, KafkaError, StorageFailure
from pylogbroker.groups import GroupCoordinator
from pylogbroker.interfaces import ITree
from pylogbroker.storage import Log, LogConfig, LogManager
from pylogbroker.storage.telling import listed
from pylogbroker.transactions import TransactionCoordinator

T = TypeVar("T")
_MOST_AT_ONCE = 100  # logs that are made without a pause
log = Logger()


class Waiting(Protocol):
    """A request that waits for something to happen."""

    def stop_waiting(self) -> None:
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
    converted: ConvertedPieces = attrs.field(factory=ConvertedPieces, init=False)
    group_commit: GroupCommit = attrs.field(init=False)
    housekeeping: Housekeeping = attrs.field(init=False)
    cleaning: Cleaning = attrs.field(init=False)
    group_store: GroupStore = attrs.field(init=False)
    transaction_store: TransactionStore = attrs.field(init=False)
    partitions: dict[tuple[str, int], Partition] = attrs.field(factory=dict, init=False)
    listeners: dict[str, Listener] = attrs.field(factory=dict, init=False)
    waiting: set[Waiting] = attrs.field(factory=set, init=False)
    complaints: Complaints = attrs.field(factory=Complaints, init=False)
    _missing_policies: MissingPolicies = attrs.field(init=False)
    turns: Turns = attrs.field(init=False)
    coordinators_loaded: Deferred[Any] = attrs.field(init=False)  # set by `open`
    slices: Slices = attrs.field(init=False)
    fetch_max_bytes: int = attrs.field(init=False)
    rack: str | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        config = self.config
        config.check_topics_by(self.delete_policies.check)
        self._missing_policies = MissingPolicies(self.clock, self.complaints)
        self.catalog = Catalog(TopicStore(self.tree), config, lambda: [self.node_id], self._is_due)
        self.auto_creation = AutoCreation(self.catalog, self.clock, self._is_due)
        self.dynamic_settings = DynamicSettings(self.tree, config, self.node_id)
        self.producer_ids = ProducerIds(self.tree, self.node_id, self._is_due)
        self.fetch_sessions = FetchSessions(config.integer("max.incremental.fetch.session.cache.slots"))
        self.group_commit = GroupCommit(self.in_thread)
        self.housekeeping = Housekeeping(self)
        self.cleaning = Cleaning(self)
        self.group_store = GroupStore(self)
        self.transaction_store = TransactionStore(self)
        self.turns = Turns(self.clock)
        self.slices = Slices(self.clock)
        self.fetch_max_bytes = config.integer("fetch.max.bytes")
        self.rack = config.optional_text("broker.rack")

    @property
    def groups(self) -> GroupCoordinator:
        """Who consumes what."""
        return self.group_store.coordinator

    @property
    def transactions(self) -> TransactionCoordinator:
        """Who writes what as one."""
        return self.transaction_store.coordinator

    def now_ms(self) -> int:
        """The time of day, in milliseconds since 1970."""
        return int(self.clock.seconds() * 1000)

    # -- start and stop ------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Put the changed settings in force, lead every partition that the catalog shows; then follow its changes."""
        await self.dynamic_settings.open()
        await self.catalog.open(self.slices)
        async for topic in self.slices.over(tuple(self.catalog.topics.values())):
            self._lead(topic, topic.partitions, is_new=False)
        self._tell_of_unowned()
        self.catalog.subscribe(self)
        self.coordinators_loaded = DeferredList([self.group_store.open(), self.transaction_store.open()])
        await self.catalog.finish_deletions()
        self.config.observe(self._on_settings_changed)
        self.housekeeping.start()
        self.cleaning.start()

    def _tell_of_unowned(self) -> None:
        by_reason: dict[str, list[str]] = {}
        for directory in self.logs.unowned.values():
            by_reason.setdefault(directory.reason, []).append(directory.path)
        for reason, found in sorted(by_reason.items()):
            log.warn("left alone, not served, because each {reason}: {paths}", reason=reason, paths=listed(found))

    def release(self) -> None:
        """The broker stops: answer whoever waits."""
        self.auto_creation.stop()
        self.housekeeping.stop()
        self.cleaning.stop()
        self.slices.stop()
        self.transaction_store.close()
        self.group_store.close()
        for waiting in tuple(self.waiting):
            waiting.stop_waiting()

    # -- what handlers ask ---------------------------------------------------------------------------------------

    def find(self, topic: str | UUID, index: int) -> Partition:
        """The partition of a topic, by name or id; KafkaError if it is not here or its log directory failed."""
        if isinstance(topic, UUID):
            known = self.catalog.by_id(topic)
            if known is None:
                raise KafkaError(f"there is no topic {topic}", ErrorCode.UNKNOWN_TOPIC_ID)
            topic = known.name
        partition = self.partitions.get((topic, index))
        if partition is not None:
            return partition
        found = self.catalog.topics.get(topic)
        if found is not None and index in found.partitions:
            raise StorageFailure(f"the log of {topic}-{index} is in a directory that failed")
        raise KafkaError(f"there is no partition {topic}-{index}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def find_topic(self, name: str, may_create: bool) -> Topic:
        """Find the topic of that name; KafkaError if there is none.

        If it may be created, that begins now and goes on in the background.
        """
        topic = self.catalog.topics.get(name)
        if topic is not None:
            return topic
        check_name(name)
        if may_create and name not in INTERNAL_TOPICS and self.config.boolean("auto.create.topics.enable"):
            self.auto_creation.request(name)
        raise KafkaError(f"there is no topic {name!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def address(self, context: RequestContext) -> tuple[str, int]:
        """Where a client that came over the listener of `context` finds this broker."""
        listener = self.listeners[context.listener]
        return listener.advertised_host or context.local_host, listener.advertised_port

    # -- what the catalog tells ----------------------------------------------------------------------------------

    def on_topic_created(self, topic: Topic) -> None:
        self._lead(topic, topic.partitions)
        self.cleaning.warn_if_off()

    def on_partitions_added(self, topic: Topic, partitions: Sequence[int]) -> None:
        self._lead(topic, partitions)

    def on_topic_deleted(self, topic: Topic) -> None:
        for index in topic.partitions:
            partition = self.partitions.pop((topic.name, index), None)
            if partition is not None:
                partition.close()
                self.cleaning.let_go(partition.log)
            self._remove(topic.name, index)

    def on_config_changed(self, topic: Topic) -> None:
        self._configure(topic)
        self.cleaning.warn_if_off()

    def _on_settings_changed(self, names: frozenset[str]) -> None:
        """The broker's own settings changed, and with them the defaults of topics."""
        for topic in self.catalog.topics.values():
            self._configure(topic)
        self.cleaning.warn_if_off()

    def request_failed(self, failed: Log, why: StorageFailure) -> None:
        """A request failed for the disk under a log: if that may pass, as when it is full, tell it now and then."""
        directory = os.path.dirname(failed.path)
        if failed.broken:
            self.storage_failed(failed)
        elif self.complaints.is_due(directory, self.now_ms()):
            log.error("requests to {directory} fail: {why}", directory=directory, why=why)

    def records_refused(self, partition: Partition, why: InvalidRecords) -> None:
        """Log, once a minute for each topic, that a producer's records break the topic's rules."""
        if self._is_due(f"refused records of {partition.topic}"):
            log.warn(
                "refused records for {topic}-{partition}: {why}",
                topic=partition.topic,
                partition=partition.index,
                why=why.record_errors[0][1],
            )

    def _is_due(self, about: str) -> bool:
        return self.complaints.is_due(about, self.now_ms())

    def storage_failed(self, failed: Log) -> None:
        """A log failed: if its disk did, and is not just full, all partitions of its directory are gone."""
        self._offline(self.logs.isolate(failed))

    def directory_failed(self, path: str, reason: str) -> None:
        """A log directory failed: all of its partitions are gone."""
        self._offline(self.logs.fail_directory(path, reason))

    def _offline(self, keys: Sequence[tuple[str, int]]) -> None:
        if keys:
            log.error("{partitions} offline: {why}", partitions=_listed(keys), why=self.logs.offline[keys[0]])
        for key in keys:
            partition = self.partitions.pop(key, None)
            if partition is not None:
                partition.close()

    def _remove(self, topic: str, index: int) -> None:
        try:
            deleted = self.logs.delete(topic, index)
        except StorageFailure as failure:
            log.error("{topic}-{partition} stays on the disk: {why}", topic=topic, partition=index, why=failure)
            return
        if deleted is not None:
            self.in_thread(deleted.remove)

    def _lead(self, topic: Topic, indexes: Iterable[int], is_new: bool = True) -> None:
        config = log_config(self.config.topic(topic.overrides))
        failed: dict[str, list[tuple[str, int]]] = {}
        begun_anew: list[tuple[str, int]] = []
        for index in indexes:
            key = topic.name, index
            present = self.logs.logs.get(key)
            try:
                found = self._open_log(topic, index, config, is_new)
            except StorageFailure as failure:
                failed.setdefault(str(failure), []).append(key)
                continue
            if found is not present and not is_new:
                begun_anew.append(key)
            found.high_watermark = found.log_end_offset
            epoch = topic.partitions[index].leader_epoch
            if epoch > found.latest_epoch:
                found.assign_epoch(epoch)
            self.partitions[topic.name, index] = Partition(topic.name, index, found, epoch, is_internal=topic.internal)
        for why, keys in failed.items():
            log.error("{partitions} offline: {why}", partitions=_listed(keys), why=why)
        if begun_anew:
            log.warn("{partitions} in no log directory: begun anew at offset 0", partitions=_listed(begun_anew))
        self._configure(topic)

    def _open_log(self, topic: Topic, index: int, config: LogConfig, is_new: bool) -> Log:
        now_ms = self.now_ms()
        found = self.logs.create(topic.name, index, config, now_ms, topic_id=topic.id, is_new=is_new, report=_tell)
        if found.by_position != config.by_position:
            raise StorageFailure(f"{found.path}: the log's message format is not the topic's; one of them is of 0.7")
        return found

    def lead_missing(self, tried: set[tuple[str, int]]) -> None:
        """Try again to lead what has no log because it could not be made, up to the first that fails again.

        That one is added to `tried`: those come last the next time.
        """
        if len(self.logs.online) < len(self.logs.directories):  # a log that is missing may lie there
            return
        topics, known = self.catalog.topics, self.partitions.keys() | self.logs.offline.keys()
        missing = [(name, index) for name in topics for index in topics[name].partitions if (name, index) not in known]
        for key in sorted(missing, key=tried.__contains__)[:_MOST_AT_ONCE]:
            self._lead(topics[key[0]], [key[1]])
            if key not in self.partitions:
                if key in tried:
                    tried.clear()
                tried.add(key)
                return
            log.info("{topic}-{partition} is online now", topic=key[0], partition=key[1])
            self.group_store.on_partition_led(*key)
            self.transaction_store.on_partition_led(*key)

    def note_missing_policies(self) -> None:
        """Log again which topics lack a delete policy, so that the reason why their logs grow is not forgotten."""
        for name in self._missing_policies.take_noted():
            topic = self.catalog.topics.get(name)
            if topic is not None:
                settings = self.config.topic(topic.overrides)
                self.delete_policies.of(settings, partial(self._missing_policies.note, name))

    def _configure(self, topic: Topic) -> None:
        settings = self.config.topic(topic.overrides)
        config = log_config(settings)
        policies = self.delete_policies.of(settings, partial(self._missing_policies.note, topic.name))
        for index in topic.partitions:
            partition = self.partitions.get((topic.name, index))
            if partition is not None:
                partition.log.config = config
                partition.delete_policies = policies
                replicas = len(topic.partitions[index].replicas)
                partition.min_insync_replicas = min(settings.integer("min.insync.replicas"), replicas)
                partition.may_down_convert = settings.boolean("message.downconversion.enable")


def _tell(found: object) -> None:
    log.warn("{found}", found=found)


def _listed(keys: Sequence[tuple[str, int]]) -> str:
    """Partitions by name, but not all if they are many, as the subject of a sentence with the verb "to be"."""
    return f"{listed([f'{topic}-{index}' for topic, index in keys])} {'is' if len(keys) == 1 else 'are'}"
