"""The partitions with a replica on this broker: opens and deletes their logs; leads some of them.

A failed directory takes its logs and their partitions offline.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.partitions.delete_policies import DeletePolicies
from pylogbroker.broker.partitions.full_directories import FullDirectories
from pylogbroker.broker.partitions.group_commit import GroupCommit
from pylogbroker.broker.partitions.log_config import log_config
from pylogbroker.broker.partitions.missing_archives import MissingArchives
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.recovery_points import RecoveryPointWrites
from pylogbroker.broker.partitions.topic_settings import TopicSettings
from pylogbroker.broker.partitions.traffic import Traffic
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode, InvalidRecords, KafkaError, StorageFailure
from pylogbroker.formatting import listed
from pylogbroker.long_loops import STEP_ITEMS
from pylogbroker.metadata.image import (
    NO_TOPIC_ID,
    TopicImage,
)
from pylogbroker.storage import DeletedDirectory, Log, LogConfig, LogManager
from pylogbroker.storage.checkpoints import TopicPartition

log = Logger()


class Archives(Protocol):
    """Archived partitions of this broker."""

    def attach(self, partition: Partition, /) -> None:
        """Archive a partition if its topic's settings say so; else stop that."""

    def detach(self, partition: Partition, /) -> None:
        """Stop the work on a partition whose replica goes."""

    async def recover(self, partition: Partition, /) -> None:
        """Let a log that was lost begin where its archive ends. Raise KafkaError."""

    async def note_deletions(self, partitions: Iterable[tuple[UUID, int]], /) -> None:
        """Note that a log was deleted, perhaps with its topic."""


@attrs.define(eq=False, repr=False)
class Partitions:
    """Opens logs, and leads partitions.

    Callbacks: `on_log_deleted` gets the log of a deleted partition before its files go. `on_opened` is called after
    logs were opened. `on_reopened` gets a partition that came online late, `on_offline` one whose log failed.
    """

    _config: BrokerConfig
    _runtime: Runtime
    _logs: LogManager
    _metadata: ClusterMetadata
    _broker_id: int
    _delete_policies: DeletePolicies
    hosted: dict[TopicPartition, Partition] = attrs.field(factory=dict, init=False)
    """Partitions with a replica here."""
    led: dict[TopicPartition, Partition] = attrs.field(factory=dict, init=False)
    """Those of them that this broker leads."""
    traffic: Traffic = attrs.field(factory=Traffic, init=False)
    _names: dict[UUID, str] = attrs.field(factory=dict, init=False)  # of topics with replicas here
    _ids: dict[str, UUID] = attrs.field(factory=dict, init=False)  # of the same topics
    _unopened: set[TopicPartition] = attrs.field(factory=set, init=False)  # their logs could not be opened
    _unrecovered: set[TopicPartition] = attrs.field(factory=set, init=False)  # for want of their archive
    on_log_deleted: list[Callable[[Log], None]] = attrs.field(factory=list, init=False)
    on_reopened: list[Callable[[str, int], None]] = attrs.field(factory=list, init=False)
    on_opened: list[Callable[[], None]] = attrs.field(factory=list, init=False)
    on_offline: list[Callable[[str, int], None]] = attrs.field(factory=list, init=False)
    before_drop: list[Callable[[TopicImage], None]] = attrs.field(factory=list, init=False)
    archives: Archives | None = attrs.field(default=None, init=False)
    """None without a remote storage."""
    settings: TopicSettings = attrs.field(init=False)
    full_directories: FullDirectories = attrs.field(init=False)
    _group_commit: GroupCommit = attrs.field(init=False)
    _recovery_points: RecoveryPointWrites = attrs.field(init=False)
    _missing_archives: MissingArchives = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.full_directories = FullDirectories(self._runtime, self._logs.directories)
        self._group_commit = GroupCommit(self._runtime.in_thread, self.request_failed)
        save = self._logs.checkpoints.save_recovery_points
        self._recovery_points = RecoveryPointWrites(self._runtime.in_thread, save)
        self._missing_archives = MissingArchives(self._runtime.clock)
        self.settings = TopicSettings(
            self._config,
            self._runtime,
            self._metadata,
            self._broker_id,
            self._delete_policies,
            self.hosted,
            self._attach_archive,
        )

    @property
    def were_closed_cleanly(self) -> bool:
        """Return False after a crash: logs may have lost their last records."""
        return self._logs.were_closed_cleanly

    def open(self) -> None:
        """Follow changes of settings; the replicas are open."""
        self._log_foreign_directories()
        self.settings.open()

    def _log_foreign_directories(self) -> None:
        by_reason: dict[str, list[str]] = {}
        for directory in self._logs.foreign.values():
            by_reason.setdefault(directory.reason, []).append(directory.path)
        for reason, paths in sorted(by_reason.items()):
            log.warn("left alone, not served, because each {reason}: {paths}", reason=reason, paths=listed(paths))
        if self._logs.stray_directories:
            log.warn(
                "kept, not served, since an earlier life of this broker: {paths}. Remove them if no record is missed",
                paths=listed(self._logs.stray_directories),
            )

    def find(self, topic: str | UUID, index: int, may_follow: bool = False) -> Partition:
        """Return a partition by topic name or id: one that is led or, with `may_follow`, followed here.

        Raise KafkaError if there is none, or its log failed. Until the controller's order this broker leads nothing,
        although it may be the leader of the image: that was read from the tree.
        """
        if isinstance(topic, UUID):
            topic = self._names.get(topic) or self._metadata.require_topic(topic).name
        partition = self.led.get((topic, index))
        if partition is not None:
            return partition
        if may_follow:
            partition = self.hosted.get((topic, index))
            if partition is not None and partition.followed is not None:
                return partition
        topic_image = self._metadata.topics.get(topic)
        state = None if topic_image is None else topic_image.partitions.get(index)
        if state is None:
            raise KafkaError(f"there is no partition {topic}-{index}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if state.leader == self._broker_id and self._has_failed((topic, index)):
            raise StorageFailure(f"the log of {topic}-{index} is in a directory that failed")
        raise self._not_leader(topic, index)

    def _has_failed(self, key: TopicPartition) -> bool:
        """Return whether the log failed, or could not be opened."""
        return key in self._logs.offline or key in self._unopened

    def sync(self, partition_log: Log) -> Deferred[None]:
        """Sync a log together with other requests; fails with StorageFailure."""
        return self._group_commit.sync(partition_log)

    def lower_recovery_point(self, partition_log: Log, offset: int) -> Deferred[None]:
        """Write that records from an offset on are not synced, together with other logs."""
        return self._recovery_points.lower(partition_log, offset)

    def request_failed(self, failed: Log, why: StorageFailure) -> None:
        """Log a disk error of a request; take a broken log offline."""
        directory = os.path.dirname(failed.path)
        if why.is_full:
            self.full_directories.note(directory, why.detail)
        if failed.offline_reason:
            self.storage_failed(failed)
        elif self._runtime.may_log(directory):
            log.error("requests to {directory} fail: {why}", directory=directory, why=why)

    def log_rejected_records(self, partition: Partition, why: InvalidRecords) -> None:
        """Log, once a minute per topic, that a producer breaks the topic's rules."""
        if self._runtime.may_log(f"rejected records of {partition.topic}"):
            log.warn(
                "rejected records for {topic}-{partition}: {why}",
                topic=partition.topic,
                partition=partition.index,
                why=why.record_errors[0][1],
            )

    def storage_failed(self, failed: Log) -> None:
        """Take a failed log offline; all of its directory if the disk failed and is not just full."""
        self._take_offline(self._logs.isolate(failed))

    def directory_failed(self, path: str, reason: str) -> None:
        self._take_offline(self._logs.fail_directory(path, reason))

    def _take_offline(self, keys: Sequence[TopicPartition]) -> None:
        if keys:
            log.error("{partitions} offline: {why}", partitions=_subject(keys), why=self._logs.offline[keys[0]])
        for key in keys:
            self.led.pop(key, None)
            partition = self.hosted.pop(key, None)
            if partition is not None:
                self.traffic.leave(partition.topic)
                partition.close(StorageFailure(f"{partition.topic}-{partition.index} is offline"))
                if self.archives is not None:
                    self.archives.detach(partition)
                for call in self.on_offline:
                    call(*key)

    def _not_leader(self, topic: str, index: int) -> KafkaError:
        return KafkaError(f"broker {self._broker_id} does not lead {topic}-{index}", ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def lead(self, key: TopicPartition, epoch: int) -> Partition:
        """Let a hosted partition be led here from this leader epoch on."""
        partition = self.hosted[key]
        if epoch > partition.log.latest_epoch:
            partition.log.assign_epoch(epoch)
        partition.leader_epoch = epoch
        self.led[key] = partition
        return partition

    def resign(self, key: TopicPartition) -> None:
        """Stop leading; requests that wait are sent to the new leader."""
        partition = self.led.pop(key, None)
        if partition is not None:
            partition.resign(self._not_leader(*key))

    def stop_following(self, key: TopicPartition) -> None:
        """Stop serving consumers as a follower; those that wait ask again."""
        partition = self.hosted.get(key)
        if partition is not None and partition.followed is not None:
            partition.resign(self._not_leader(*key))

    async def drop(self, topic: TopicImage) -> None:
        """Take away the topic's logs, synced before the topic is forgotten; then remove their files."""
        for unload in self.before_drop:
            unload(topic)
        self._names.pop(topic.id, None)
        self._ids.pop(topic.name, None)
        await self.delete(topic.name, topic.partitions)

    def release(self, key: TopicPartition) -> None:
        """Stop serving a partition whose log goes."""
        self._unopened.discard(key)
        self.led.pop(key, None)
        partition = self.hosted.pop(key, None)
        if partition is not None:
            self.traffic.leave(partition.topic)
            partition.close()
            if self.archives is not None:
                self.archives.detach(partition)
            for call in self.on_log_deleted:
                call(partition.log)

    async def delete(self, topic: str, indexes: Iterable[int]) -> list[int]:
        """Take away logs of a topic, also those not hosted, synced; then remove their files. Return those that stay."""
        deleted: list[DeletedDirectory] = []
        kept: dict[str, list[TopicPartition]] = {}
        indexes = tuple(indexes)
        if self.archives is not None:
            await self.archives.note_deletions(self._archived(topic, indexes))
        async for index in self._runtime.slices.over(indexes):
            self.release((topic, index))
            try:
                directory = self._logs.delete(topic, index)
            except StorageFailure as failure:
                kept.setdefault(str(failure), []).append((topic, index))
            else:
                deleted += [directory] if directory is not None else []
        for why, keys in kept.items():
            log.error("{partitions} left on the disk: {why}", partitions=_subject(keys), why=why)
        if deleted:
            await self._runtime.in_thread(self._sync_deletions, deleted)
            self._runtime.in_thread(_remove, deleted)
        return [index for keys in kept.values() for _, index in keys]

    def _archived(self, topic: str, indexes: Iterable[int]) -> Iterator[tuple[UUID, int]]:
        """Yield the ids of partitions that may have an archive: without a topic's settings, nobody knows."""
        for index in indexes:
            partition, log_ = self.hosted.get((topic, index)), self._logs.logs.get((topic, index))
            if partition is not None:
                log_ = None if partition.archive is None else partition.log
            if log_ is not None and log_.topic_id is not None:
                yield log_.topic_id, index

    def is_led(self, partition: Partition) -> bool:
        return self.led.get((partition.topic, partition.index)) is partition

    def logged(self) -> Mapping[TopicPartition, Log]:
        """Return the logs here by partition, also those that are not hosted."""
        return self._logs.logs

    async def quarantine(self, keys: Sequence[TopicPartition]) -> None:
        """Keep logs under other names, which no later start takes for those of a partition."""
        renamed: list[str] = []
        async for key in self._runtime.slices.over(keys):
            self.release(key)
            try:
                renamed.append(self._logs.quarantine(*key))
            except StorageFailure as failure:
                log.error("{partitions} left on the disk: {why}", partitions=_subject([key]), why=failure)
        if renamed:
            log.warn(
                "{partitions} not this broker's any more: kept, not served, as {paths}. "
                "Remove them if no record is missed",
                partitions=_subject(keys),
                paths=listed(renamed),
            )

    def _sync_deletions(self, deleted: Sequence[DeletedDirectory]) -> None:
        for notice in self._logs.sync_deletions(deleted):
            log.error("deleted logs may return after a loss of power: {why}", why=notice)

    async def open_replicas(
        self,
        topic: TopicImage,
        numbers: Iterable[int],
        settings: Mapping[str, str],
        is_new: bool = True,
        *,
        is_sole: bool = False,
    ) -> list[TopicPartition]:
        """Open the logs of partitions, creating missing ones; return those that are open.

        A lost log of an archived topic begins where its archive ends. One that `is_sole` has no other replica from
        which to learn that: it stays closed without the archive.
        """
        slices, indexes = self._runtime.slices, list(numbers)
        config = log_config(self._config.topic(settings), is_internal=topic.internal)
        if topic.id != NO_TOPIC_ID:
            self._set_id(topic)
        failed: dict[str, list[TopicPartition]] = {}
        recreated: list[TopicPartition] = []
        opened: list[TopicPartition] = []
        if is_new:
            await self._drop_stale_checkpoints([(topic.name, index) for index in indexes])
        async for index in slices.over(indexes):
            key = topic.name, index
            present = self._logs.logs.get(key)
            try:
                self._open_replica(topic, index, config, is_new)
                if not is_new and self._logs.logs[key] is not present:
                    await self._recover(key, is_sole)
            except KafkaError as failure:
                self._unopened.add(key)
                failed.setdefault(str(failure), []).append(key)
                continue
            opened.append(key)
            if self._logs.logs[key] is not present and not is_new:
                recreated.append(key)
        for why, keys in failed.items():
            log.error("{partitions} offline: {why}", partitions=_subject(keys), why=why)
        for call in self.on_opened:
            call()
        if recreated:
            log.warn(
                "records may be lost: {partitions} in no log directory; recreated empty at offset 0",
                partitions=_subject(recreated),
            )
        return opened

    def _set_id(self, topic: TopicImage) -> None:
        """Find the topic by its id from now on, and not by that of a deleted topic with the same name."""
        former = self._ids.get(topic.name)
        if former is not None:
            self._names.pop(former, None)
        self._ids[topic.name] = topic.id
        self._names[topic.id] = topic.name

    async def _drop_stale_checkpoints(self, keys: Sequence[TopicPartition]) -> None:
        async for start in self._runtime.slices.over(range(0, len(keys), STEP_ITEMS)):
            if self._logs.checkpoints.may_have(keys[start : start + STEP_ITEMS]):
                await self._runtime.in_thread(self._logs.checkpoints.drop, keys)
                return

    def _open_replica(self, topic: TopicImage, index: int, config: LogConfig, is_new: bool) -> None:
        key = topic.name, index
        partition_log = self._open_log(topic, index, config, is_new)
        self._unopened.discard(key)
        partition = self.hosted.get(key)
        if partition is None or partition.log is not partition_log:
            traffic = self.traffic.join(topic.name)
            if partition is not None:
                self.traffic.leave(topic.name)
            if partition is not None and self.archives is not None:
                self.archives.detach(partition)
            self.hosted[key] = opened = Partition(
                topic.name, index, partition_log, self._group_commit, traffic, is_internal=topic.internal
            )
            self._attach_archive(opened)

    def _attach_archive(self, partition: Partition) -> None:
        if self.archives is not None:
            self.archives.attach(partition)
        else:
            self._missing_archives.note(partition.topic, is_archived=partition.log.is_archived)

    def _open_log(self, topic: TopicImage, index: int, config: LogConfig, is_new: bool) -> Log:
        now_ms = self._runtime.now_ms()
        topic_id = None if topic.id == NO_TOPIC_ID else topic.id
        partition_log = self._logs.create(
            topic.name, index, config, now_ms, topic_id=topic_id, is_new=is_new, report=_log_finding
        )
        if partition_log.byte_addressed != config.byte_addressed:
            raise StorageFailure(
                f"{partition_log.path}: the log's message format is not the topic's; one of them is of 0.7"
            )
        return partition_log

    async def reopen(self, topic: TopicImage, index: int) -> None:
        """Create a log that could not be created before; raise KafkaError."""
        self._open_replica(
            topic, index, log_config(self.settings.of(topic.name), is_internal=topic.internal), is_new=True
        )
        if (topic.name, index) in self._unrecovered:
            await self._recover((topic.name, index), True)

    async def _recover(self, key: TopicPartition, is_sole: bool) -> None:
        """Let an empty log begin where its archive ends. Without that, a sole one is closed: raise KafkaError."""
        partition = self.hosted[key]
        if self.archives is None or not partition.log.is_archived:
            return
        self._unrecovered.add(key)
        try:
            await self.archives.recover(partition)
        except KafkaError:
            if not is_sole:
                self._unrecovered.discard(key)
                return
            self.archives.detach(partition)
            self.traffic.leave(partition.topic)
            self.hosted.pop(key, None)
            raise
        self._unrecovered.discard(key)

    def is_offline(self, key: TopicPartition) -> bool:
        """Return whether the log is, or may be, in a directory that failed."""
        return key in self._logs.offline or any(directory.failure for directory in self._logs.directories)


def _log_finding(finding: object) -> None:
    log.warn("{found}", found=finding)


def _remove(deleted: Iterable[DeletedDirectory]) -> None:
    for directory in deleted:
        directory.remove()


def _subject(keys: Sequence[TopicPartition]) -> str:
    return f"{listed([f'{topic}-{index}' for topic, index in keys])} {'is' if len(keys) == 1 else 'are'}"
