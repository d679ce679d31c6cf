"""The share partitions that this broker leads, by group, topic id and partition.

    state      fetches                              leaves it when
    --------   ----------------------------------   --------------------------------------------------------------
    absent     begin to load it                     a session has the partition, and fetches
    loading    wait                                 the persister has read the state, or an error ends their wait
    led        acquire records                      leader epoch or state epoch are fenced, the topic is deleted,
                                                    or no session has the partition and nothing is in flight

A share partition without sessions is forgotten: tools may change where its group goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol
from uuid import UUID

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.services import HasPartitions, HasRuntime
from pylogbroker.broker.share.counts import ShareCounts
from pylogbroker.broker.share.delivery_settings import DeliverySettings
from pylogbroker.broker.share.led_partition import LedSharePartition, WaitingShareFetch, error_of_members
from pylogbroker.broker.share.persister import SharePersister
from pylogbroker.broker.share.record_batches import RecentPieces
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.groups.share.partition import SharePartition
from pylogbroker.groups.share.sessions import TopicIdPartition
from pylogbroker.groups.share.state_coordinator import StateWrite
from pylogbroker.groups.share.state_records import UNCHANGED, SharePartitionKey
from pylogbroker.groups.share.stored_state import NO_START, StoredState
from pylogbroker.storage import Log

_ARCHIVE_SECONDS: Final = 30.0
log = Logger()


class _Services(HasRuntime, HasPartitions, Protocol):
    """Services that this module uses."""


@attrs.define(eq=False, repr=False)
class LoadingSharePartition:
    """`error` and `detail` say why a load has failed; fetches that wait are woken at its end."""

    key: SharePartitionKey
    partition: Partition
    leader_epoch: int
    has_ended: bool = attrs.field(default=False, init=False)
    error: ErrorCode = attrs.field(default=ErrorCode.NONE, init=False)
    detail: str = attrs.field(default="", init=False)
    _waiting: dict[WaitingShareFetch, None] = attrs.field(factory=dict, init=False)

    def add_waiting(self, fetch: WaitingShareFetch) -> None:
        self._waiting[fetch] = None

    def remove_waiting(self, fetch: WaitingShareFetch) -> None:
        self._waiting.pop(fetch, None)

    def end(self, error: KafkaError | None) -> None:
        self.has_ended = True
        if error is not None:
            self.error, self.detail = error.code, error.detail
        for fetch in tuple(self._waiting):
            fetch.wake()


@attrs.define(eq=False, repr=False)
class LedSharePartitions:
    """`settings_of` returns the settings of a group now."""

    _services: _Services
    _persister: SharePersister
    _settings_of: Callable[[str], DeliverySettings]
    _on_dead_letters: Callable[[LedSharePartition], None]
    _counts: ShareCounts
    _pieces: RecentPieces = attrs.field(factory=RecentPieces, init=False)
    _led: dict[SharePartitionKey, LedSharePartition] = attrs.field(factory=dict, init=False)
    _loading: dict[SharePartitionKey, LoadingSharePartition] = attrs.field(factory=dict, init=False)
    _sessions: dict[SharePartitionKey, int] = attrs.field(factory=dict, init=False)  # number of sessions that have it
    entered: int = attrs.field(default=0, init=False)
    """Partitions of all sessions together."""

    def __len__(self) -> int:
        return len(self._led)

    def all_led(self) -> tuple[LedSharePartition, ...]:
        """Return the share partitions that are loaded."""
        return tuple(self._led.values())

    # -- sessions ----------------------------------------------------------------------------------------------------

    def enter(self, group_id: str, partition: TopicIdPartition) -> None:
        """Note that a session has a partition."""
        key = SharePartitionKey(group_id, *partition)
        self._sessions[key] = self._sessions.get(key, 0) + 1
        self.entered += 1

    def leave(self, group_id: str, partition: TopicIdPartition) -> None:
        """Note that a session does not have a partition any more."""
        key = SharePartitionKey(group_id, *partition)
        count = self._sessions.pop(key, 0) - 1
        self.entered -= 1
        if count > 0:
            self._sessions[key] = count
        elif key in self._led:
            self._forget_if_idle(self._led[key])

    def _forget_if_idle(self, led: LedSharePartition) -> None:
        if led.key not in self._sessions and led.records.is_idle:
            self._close(led)

    # -- share partitions --------------------------------------------------------------------------------------------

    def find(self, group_id: str, topic_id: UUID, index: int) -> LedSharePartition | LoadingSharePartition:
        """Return a share partition, and begin to load an absent one.

        Raise KafkaError if this broker does not lead the partition.
        """
        key = SharePartitionKey(group_id, topic_id, index)
        partition = self._services.partitions.find(topic_id, index)
        led = self.led(key, partition)
        if led is not None:
            return led
        loading = self._loading.get(key)
        if loading is None or loading.leader_epoch != partition.leader_epoch:
            loading = self._loading[key] = LoadingSharePartition(key, partition, partition.leader_epoch)
            run_in_background(log, self._load(loading), "share group {group!r} was not loaded", group=group_id)
            if loading.error:
                raise KafkaError(loading.detail, loading.error)
        return self._led.get(key) or loading

    def led(self, key: SharePartitionKey, partition: Partition) -> LedSharePartition | None:
        """Return a loaded share partition of a partition; close one of an earlier leader epoch."""
        led = self._led.get(key)
        if led is None:
            return None
        if led.is_closed or led.partition is not partition or led.leader_epoch != partition.leader_epoch:
            self._close(led)
            return None
        return led

    async def _load(self, loading: LoadingSharePartition) -> None:
        error: KafkaError | None = None
        try:
            led = await self._loaded(loading)
        except KafkaError as why:
            error = why
        except Exception:
            log.failure("the state of share group {group!r} was not loaded", group=loading.key.group_id)
            error = KafkaError("the state of the share partition was not loaded", ErrorCode.UNKNOWN_SERVER_ERROR)
        if self._loading.get(loading.key) is loading:
            del self._loading[loading.key]
            if error is None and loading.key in self._sessions:
                self._led[loading.key] = led
                self._on_dead_letters(led)
        loading.end(error)

    async def _loaded(self, loading: LoadingSharePartition) -> LedSharePartition:
        key, partition, epoch = loading.key, loading.partition, loading.leader_epoch
        settings_of = partial(self._settings_of, key.group_id)
        state = await self._persister.read(key, epoch)
        if isinstance(state, ErrorCode):
            raise KafkaError("the state of the share partition cannot be read", error_of_members(state))
        start = state.start_offset
        if start == NO_START:
            start = await self._begin(loading, state, settings_of())
        records = SharePartition.restored(settings_of().records, start, state.batches)
        if self._services.partitions.find(key.topic_id, key.partition) is not partition:
            raise KafkaError("the partition was opened again", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if partition.leader_epoch != epoch:
            raise KafkaError("the partition has another leader epoch now", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return LedSharePartition(
            key,
            partition,
            epoch,
            state.state_epoch,
            records,
            settings_of,
            self._persister,
            self._services.runtime,
            self._pieces,
            self._counts,
            self._on_dead_letters,
            self._forget_if_idle,
        )

    async def _begin(self, loading: LoadingSharePartition, state: StoredState, settings: DeliverySettings) -> int:
        """Return the offset at which a group begins, after storing it: it must not begin later after a restart."""
        start = await self._first_offset(loading.partition, settings)
        write = StateWrite(state.state_epoch, loading.leader_epoch, start, UNCHANGED, ())
        error = await self._persister.write(loading.key, write)
        if error:
            raise KafkaError("the start of the share partition cannot be stored", error_of_members(error))
        return start

    async def _first_offset(self, partition: Partition, settings: DeliverySettings) -> int:
        records = partition.log
        if settings.begins_at_earliest:
            return records.log_start_offset
        if settings.begins_before_ms is None:
            return records.high_watermark
        timestamp = self._services.runtime.now_ms() - settings.begins_before_ms
        start = records.log_start_offset
        while True:
            local_start = records.local_start_offset
            offset = await _archived_offset_at(partition, timestamp, start) if start < local_start else None
            if offset is None:
                offset = await self._local_offset_at(records, timestamp)
                if records.local_start_offset != local_start:  # retention has moved records to the archive meanwhile
                    start = local_start
                    continue
            return records.high_watermark if offset is None else min(offset, records.high_watermark)

    async def _local_offset_at(self, records: Log, timestamp: int) -> int | None:
        try:
            offset: int | None = await self._services.runtime.in_thread(_offset_at, records, timestamp)
        except OSError as error:
            failure = records.record_failure(error)
            self._services.partitions.request_failed(records, failure)
            raise failure from error
        except StorageFailure as failure:
            self._services.partitions.request_failed(records, failure)
            raise
        return offset

    # -- ends --------------------------------------------------------------------------------------------------------

    def resign(self, topic: str, index: int) -> None:
        """Close the share partitions of a partition that this broker does not lead any more."""
        for led in tuple(self._led.values()):
            if (led.partition.topic, led.partition.index) == (topic, index):
                self._close(led)

    def drop_topic(self, topic_id: UUID) -> None:
        for led in tuple(self._led.values()):
            if led.key.topic_id == topic_id:
                self._close(led)

    def close(self) -> None:
        for led in tuple(self._led.values()):
            self._close(led)

    def _close(self, led: LedSharePartition) -> None:
        with suppress(KeyError):
            if self._led[led.key] is led:
                del self._led[led.key]
        if not led.is_closed:
            led.close()


async def _archived_offset_at(partition: Partition, timestamp: int, start: int) -> int | None:
    """Return the first offset of the archive, at or after `start`, with a timestamp, or None if there is none."""
    outcome = None
    if partition.archive is not None:
        outcome = await partition.archive.reads.find_timestamp(timestamp, start, _ARCHIVE_SECONDS)
    if outcome is None:
        where = f"{partition.topic}-{partition.index}"
        raise KafkaError(f"the archive of {where} cannot be read now", ErrorCode.KAFKA_STORAGE_ERROR)
    return None if outcome[0] is None else outcome[0].offset


def _offset_at(records: Log, timestamp: int) -> int | None:
    """Return the first offset with a timestamp, or None if there is none. Blocks."""
    start = records.log_start_offset
    while (candidate := records.find_timestamp(timestamp, start)) is not None:
        match = candidate.first()
        if match is not None:
            return match.offset
        start = candidate.next_offset
    return None
