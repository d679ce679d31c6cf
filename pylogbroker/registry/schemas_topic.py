"""The topic `_schemas` in a cluster: a log of the registry, whose one writer is the broker that leads its partition.

Each broker that has a registry reads the partition, from the leader, before each answer. A change is made at the leader
alone, which appends it to its own log, with acks=all: a broker that is no longer the leader cannot commit anything. It
decides on ids and versions only when all that its log has is committed, so that no id is given twice.

Confluent's registry elects its writer in a group of consumers. That takes seconds after a failure, and fences nobody:
a writer that was paused goes on. The leader of a partition is fenced by its epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.task import deferLater

from pylogbroker.broker.fetch.readahead import read_ahead
from pylogbroker.broker.partitions.delayed_write import ACKS_ALL, DelayedWrite
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.services import Services
from pylogbroker.broker.share.record_batches import read_piece
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.image import NO_LEADER, TopicImage
from pylogbroker.records import LogEntry, Record, build, complete_entries, entries
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.log import LogReplaced, StoredRecords
from pylogbroker.registry.records import TOPIC, SchemaRecord
from pylogbroker.rpc.answer_rows import sole_row
from pylogbroker.rpc.errors import code_of
from pylogbroker.storage import NotCached
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

_PARTITION: Final = 0
_NO_TOPIC: Final = UUID(int=0)
_COMPACT: Final = "compact"
_READ_BYTES: Final = 1024 * 1024
_FETCH_VERSION: Final = 12
"""The last one that names topics."""
_COMMITTED: Final = 1
_TIMEOUT_SECONDS: Final = 10
_PAUSE_SECONDS: Final = 0.05
_READS_MAX: Final = 10


class NotPrimary(RegistryError):
    """This broker does not lead the topic's partition, or no longer."""

    def __init__(self) -> None:
        super().__init__(50004, f"this broker does not lead {TOPIC}-{_PARTITION}: try again")


@attrs.define(eq=False, repr=False)
class SchemasTopic:
    _services: Services
    _topic_id: UUID = attrs.field(default=_NO_TOPIC, init=False)
    """Topic that was read last."""

    # the topic and its leader

    async def leader(self) -> int:
        """Return the broker that leads the partition; create a missing topic. Raise RegistryError."""
        clock = self._services.runtime.clock
        ends_at = clock.seconds() + _TIMEOUT_SECONDS
        while True:
            topic = await self._topic()
            leader = NO_LEADER if topic is None else topic.partitions[_PARTITION].leader
            if leader != NO_LEADER and self._is_ready(leader):
                return leader
            if clock.seconds() >= ends_at:
                raise RegistryError.no_primary(f"{TOPIC}-{_PARTITION} has no leader now: are its brokers running?")
            await deferLater(clock, _PAUSE_SECONDS)

    @property
    def is_led_here(self) -> bool:
        return (TOPIC, _PARTITION) in self._services.partitions.led

    def _is_ready(self, leader: int) -> bool:
        """Return whether this broker's own part agrees with the metadata about who leads."""
        return (leader == self._services.node.id) == self.is_led_here

    async def _topic(self) -> TopicImage | None:
        """Return the topic, which is created if it is missing; None while this broker does not see one that exists."""
        topic = self._services.metadata.topics.get(TOPIC)
        if topic is None:
            topic = await self._create()
        if topic is None:
            return None
        if len(topic.partitions) != 1:
            raise RegistryError.backend_failed(
                f"the topic {TOPIC} has {len(topic.partitions)} partitions; expected one: its order is that of changes"
            )
        settings = self._services.config.topic(self._services.metadata.topic_settings(TOPIC))
        if tuple(settings.cleanup_policy) != (_COMPACT,):
            raise RegistryError.backend_failed(
                f"the topic {TOPIC} has cleanup.policy={','.join(settings.cleanup_policy)}, which deletes schemas:"
                f" set cleanup.policy={_COMPACT}"
            )
        return topic

    async def _create(self) -> TopicImage | None:
        services = self._services
        brokers = len(services.metadata.image.brokers) if services.config.in_cluster else 1
        replicas = min(services.config.schema_registry_topic_replication_factor, max(1, brokers))
        try:
            return await services.controller.create_topic(
                NewTopic(TOPIC, 1, replicas, settings={"cleanup.policy": _COMPACT})
            )
        except KafkaError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:  # another broker was faster, and its news are on the way
                return services.metadata.topics.get(TOPIC)
            raise RegistryError.backend_failed(f"the topic {TOPIC} cannot be created: {error}") from error

    # reading

    async def read(self, offset: int) -> StoredRecords:
        clock = self._services.runtime.clock
        ends_at = clock.seconds() + _TIMEOUT_SECONDS
        while True:
            leader = await self.leader()
            self._check_topic(offset)
            try:
                if leader == self._services.node.id:
                    return await self._read_here(offset)
                return await self._read_from(leader, offset)
            except (PylogbrokerError, NotPrimary) as error:
                if clock.seconds() >= ends_at:
                    raise RegistryError.backend_failed(f"{TOPIC} cannot be read: {error}") from error
            await deferLater(clock, _PAUSE_SECONDS)

    def _check_topic(self, offset: int) -> None:
        topic = self._services.metadata.topics.get(TOPIC)
        before, self._topic_id = self._topic_id, _NO_TOPIC if topic is None else topic.id
        if before not in (_NO_TOPIC, self._topic_id) and offset:
            raise LogReplaced

    async def _read_here(self, offset: int) -> StoredRecords:
        partition = self._led_partition()
        await self._commit_all(partition)
        log, runtime = partition.log, self._services.runtime
        if offset > log.log_end_offset:
            raise LogReplaced
        start = max(offset, log.log_start_offset)
        for attempt in range(_READS_MAX):
            is_last = attempt == _READS_MAX - 1
            try:
                piece = read_piece(log, start, is_committed=True, may_wait=is_last)
                break
            except NotCached as missing:
                await runtime.in_reading_thread(read_ahead, missing.region)
        if piece is None:
            return StoredRecords([], start, is_end=True)
        stored = zip(entries(piece.data), piece.batches, strict=True)
        visible = [entry for entry, batch in stored if not batch.is_hidden]
        records = await runtime.in_thread(_records_in, visible, start)
        return StoredRecords(records, piece.next_offset, is_end=piece.next_offset >= log.last_stable_offset)

    async def _commit_all(self, partition: Partition) -> None:
        """Wait until all that the log has is committed; raise RegistryError if that takes long."""
        end = partition.log.log_end_offset
        if partition.log.high_watermark < end:
            await self._wait(partition, end, (Mark.HIGH_WATERMARK,))

    async def _read_from(self, leader: int, offset: int) -> StoredRecords:
        partition = FetchPartition(_PARTITION, fetch_offset=offset, partition_max_bytes=_READ_BYTES)
        request = FetchRequest(
            max_bytes=_READ_BYTES, isolation_level=_COMMITTED, topics=[FetchTopic(TOPIC, partitions=[partition])]
        )
        answer = await self._services.peers.send(leader, request, _FETCH_VERSION)
        row = sole_row(answer, "responses.partitions", leader, partition_index=_PARTITION)
        code = code_of(answer.error_code or row.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if offset < row.log_start_offset:
                return StoredRecords([], row.log_start_offset, is_end=False)
            raise LogReplaced
        if code:
            raise KafkaError(f"broker {leader}: {code.meaning}", code)
        batches = list(entries(complete_entries(row.records or b"")))
        visible = _committed(batches, row.aborted_transactions or ())
        records = await self._services.runtime.in_thread(_records_in, visible, offset)
        next_offset = max((batch.next_offset for batch in batches), default=offset)
        return StoredRecords(records, next_offset, is_end=next_offset >= row.last_stable_offset or not batches)

    # writing

    async def append(self, records: Sequence[SchemaRecord]) -> None:
        partition = self._led_partition()
        runtime = self._services.runtime
        now_ms = runtime.now_ms()
        batch = build([Record(0, now_ms, record.key, record.value, ()) for record in records])
        check = partition.check_enough_replicas
        try:
            appended = partition.append_now(batch, now_ms, check)
            if appended is None:
                appended = await partition.append_queued(batch, now_ms, runtime.in_thread, check)
        except KafkaError as error:
            if error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
                raise RegistryError.too_large(
                    f"the schema is too large for {TOPIC}: {error.detail}; raise its max.message.bytes"
                ) from error
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise NotPrimary from error
            raise RegistryError.backend_failed(error) from error
        await self._wait(partition, appended.last_offset + 1, ACKS_ALL)

    async def _wait(self, partition: Partition, offset: int, marks: Sequence[Mark]) -> None:
        """Wait until marks of the partition have reached an offset; raise RegistryError."""
        errors: list[KafkaError] = []
        delayed = DelayedWrite(self._services.runtime.clock)
        delayed.add(partition, offset, marks, errors.append)
        await delayed.wait(_TIMEOUT_SECONDS * 1000)
        if not errors:
            return
        if errors[0].code is ErrorCode.REQUEST_TIMED_OUT:
            raise RegistryError.timed_out(f"the replicas of {TOPIC} did not follow in time")
        if errors[0].code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise NotPrimary
        raise RegistryError.backend_failed(errors[0])

    def _led_partition(self) -> Partition:
        partition = self._services.partitions.led.get((TOPIC, _PARTITION))
        if partition is None:
            raise NotPrimary
        return partition


def _records_in(batches: Iterable[LogEntry], first: int) -> list[tuple[int, SchemaRecord]]:
    """Return the records of batches from an offset on; those without a key mean nothing. May block."""
    return [
        (record.offset, SchemaRecord(bytes(record.key), None if record.value is None else bytes(record.value)))
        for batch in batches
        for record in batch.records()
        if record.offset >= first and record.key is not None
    ]


def _committed(batches: Sequence[LogEntry], aborted: Sequence[Any]) -> list[LogEntry]:
    """Return the batches without markers, and without those of aborted transactions."""
    open_until_marker: set[int] = set()
    starts = sorted((transaction.first_offset, transaction.producer_id) for transaction in aborted)
    visible = []
    for batch in batches:
        while starts and starts[0][0] <= batch.last_offset:
            open_until_marker.add(starts.pop(0)[1])
        if batch.is_control:
            if batch.marker is not None and not batch.marker.committed:
                open_until_marker.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in open_until_marker):
            visible.append(batch)
    return visible
