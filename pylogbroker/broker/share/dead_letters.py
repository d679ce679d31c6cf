"""Dead letters of share groups: records that were rejected, or delivered too often, go to a topic (KIP-1191).

A dead letter is in the partition of the same number, modulo the topic's partitions. Its headers say where it is from:

    __dlq.errors.topic             name of the topic
    __dlq.errors.partition         number of the partition
    __dlq.errors.offset
    __dlq.errors.group
    __dlq.errors.delivery.count    how often the record was delivered
    __dlq.errors.message           why

With `errors.deadletterqueue.copy.record.enable` it also has the record's key, value and headers, unless the log has
deleted it.

Records stay in the state ARCHIVING until their dead letters are stored; attempts are repeated. A leader that fails may
have stored letters that the next one stores again. Apache Kafka drops the letters of a topic that is missing or does
not allow them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.fetch.readahead import read_ahead
from pylogbroker.broker.partitions.delayed_write import ACKS_ALL, DelayedWrite
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.services import LogServices
from pylogbroker.broker.share.counts import ShareCounts
from pylogbroker.broker.share.delivery_settings import DeliverySettings
from pylogbroker.broker.share.led_partition import LedSharePartition
from pylogbroker.broker.share.persister import StatePeers
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.features import on_first_use
from pylogbroker.groups.share.values import MissingLetters
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.image import NO_LEADER, TopicImage
from pylogbroker.records import Record, build, entries
from pylogbroker.storage import FileRegion, Log, NotCached

if TYPE_CHECKING:
    from pylogbroker.broker.share import remote_appends
else:
    remote_appends = on_first_use("pylogbroker.broker.share.remote_appends")

log = Logger()

LETTERS_PER_BATCH_MAX: Final = 100
_RECORD_OVERHEAD_BYTES: Final = 64
_BATCH_OVERHEAD_BYTES: Final = 128
_TIMEOUT_MS: Final = 30_000
_PAUSES_SECONDS: Final = (1, 2, 5, 10, 30)
_UNCACHED_READS_MAX: Final = 10
_READ_BYTES: Final = 1 << 20
_REJECTED: Final = "Offset rejected by client."
_DELIVERED_TOO_OFTEN: Final = "Offset delivery count exceeded the threshold."


@attrs.define(eq=False, repr=False)
class DeadLetters:
    _services: LogServices
    _broker_id: int
    _peers: StatePeers | None
    """None: no other broker leads partitions."""
    counts: ShareCounts = attrs.field(factory=ShareCounts, init=False)
    _busy: dict[LedSharePartition, None] = attrs.field(factory=dict, init=False)

    def store(self, led: LedSharePartition) -> None:
        """Store the dead letters of a share partition, unless that is under way."""
        if led not in self._busy and not led.is_closed and led.records.dead_letters():
            self._busy[led] = None
            run_in_background(
                log,
                self._store_all(led),
                "dead letters of share group {group!r} are not stored before it is loaded again",
                group=led.key.group_id,
            )

    async def _store_all(self, led: LedSharePartition) -> None:
        failures = 0
        appended: set[tuple[int, int]] = set()  # ranges of offsets whose end is not stored yet
        try:
            while not led.is_closed and (batches := led.records.dead_letters()):
                try:
                    for batch in batches:
                        await self._store_batch(led, batch, appended)
                    failures = 0
                except KafkaError as error:
                    self._log_failure(led, error)
                    seconds = _PAUSES_SECONDS[min(failures, len(_PAUSES_SECONDS) - 1)]
                    failures += 1
                    await deferLater(self._services.runtime.clock, seconds)
        finally:
            del self._busy[led]

    def _log_failure(self, led: LedSharePartition, error: KafkaError) -> None:
        if self._services.runtime.may_log(f"dead letters of {led.settings.dead_letter_topic}"):
            log.warn(
                "share group {group!r}: dead letters cannot be stored in {topic!r}, they are stored later: {why}",
                group=led.key.group_id,
                topic=led.settings.dead_letter_topic,
                why=error.detail or error.code.meaning,
            )

    async def _store_batch(
        self, led: LedSharePartition, missing: MissingLetters, appended: set[tuple[int, int]]
    ) -> None:
        """Store the dead letters of neighbouring records, unless they are appended; raise KafkaError."""
        for first in range(missing.first, missing.last + 1, LETTERS_PER_BATCH_MAX):
            last = min(first + LETTERS_PER_BATCH_MAX - 1, missing.last)
            settings = led.settings
            if settings.dead_letter_topic and (first, last) not in appended:
                await self._append(led, settings, attrs.evolve(missing, first=first, last=last))
                appended.add((first, last))
            error = await led.dead_letters_stored(first, last)
            if error:
                raise KafkaError("the end of dead letters cannot be stored", error)
            appended.discard((first, last))

    async def _append(self, led: LedSharePartition, settings: DeliverySettings, missing: MissingLetters) -> None:
        first, last = missing.first, missing.last
        topic = await self._topic(settings.dead_letter_topic)
        index = led.key.partition % len(topic.partitions)
        copies = await self._records(led.partition.log, first, last) if settings.copies_records else {}
        now_ms = self._services.runtime.now_ms()
        letters = [_letter(led, offset, missing, copies.get(offset), now_ms) for offset in range(first, last + 1)]
        bytes_max = self._services.config.topic(self._services.metadata.topic_settings(topic.name)).max_message_bytes
        counts = self.counts.letters_of(led.key.group_id)
        for part in _parts(letters, bytes_max):
            counts.appends += 1
            try:
                await self._append_to(topic, index, part)
            except KafkaError as error:
                counts.failed_appends += 1
                if error.code is not ErrorCode.MESSAGE_TOO_LARGE or len(part) > 1 or part[0].value is None:
                    raise
                counts.appends += 1
                await self._append_to(topic, index, [_without_record(part[0])])
            counts.stored += len(part)

    async def _topic(self, name: str) -> TopicImage:
        """Return a dead letter topic, and create a missing one if the broker may; raise KafkaError."""
        services = self._services
        topic = services.metadata.topics.get(name)
        if topic is None:
            if not services.config.errors_deadletterqueue_auto_create_topics_enable:
                raise KafkaError(
                    "the topic does not exist: create it with errors.deadletterqueue.group.enable=true, or set"
                    " errors.deadletterqueue.auto.create.topics.enable",
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
            own = {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
            replicas = services.config.default_replication_factor if services.config.in_cluster else 1
            new_topic = NewTopic(name, services.config.num_partitions, replicas, settings=own)
            return await services.controller.create_topic(new_topic)
        if not services.config.topic(services.metadata.topic_settings(name)).errors_deadletterqueue_group_enable:
            raise KafkaError(
                "the topic does not take dead letters: set errors.deadletterqueue.group.enable=true for it",
                ErrorCode.POLICY_VIOLATION,
            )
        return topic

    # -- records -----------------------------------------------------------------------------------------------------

    async def _records(self, records: Log, first: int, last: int) -> Mapping[int, Record]:
        """Return the records of some offsets that the local log still has."""
        present: dict[int, Record] = {}
        offset = max(first, records.local_start_offset)
        while offset <= last:
            region = await self._region(records, offset)
            if region is None:
                break
            read: dict[int, Record] = await self._services.runtime.in_thread(_records_in, region, first, last)
            present |= read
            offset = region.next_offset
        return present

    async def _region(self, records: Log, offset: int) -> FileRegion | None:
        for reads in range(_UNCACHED_READS_MAX + 1):
            try:
                upto = records.high_watermark
                return records.read(offset, _READ_BYTES, upto=upto, may_wait=reads == _UNCACHED_READS_MAX)
            except NotCached as missing:
                await self._services.runtime.in_reading_thread(read_ahead, missing.region)
        return None

    # -- appends -----------------------------------------------------------------------------------------------------

    async def _append_to(self, topic: TopicImage, index: int, letters: Sequence[Record]) -> None:
        """Append to a partition of the dead letter topic, here or at its leader; raise KafkaError."""
        batch = build(letters)
        partition = self._services.partitions.led.get((topic.name, index))
        if partition is not None:
            await self._append_here(partition, batch)
            return
        state = topic.partitions.get(index)
        if state is None or state.leader in (NO_LEADER, self._broker_id) or self._peers is None:
            raise KafkaError("its partition has no leader now", ErrorCode.LEADER_NOT_AVAILABLE)
        await remote_appends.append(self._peers, state.leader, topic, index, batch, _TIMEOUT_MS)

    async def _append_here(self, partition: Partition, batch: bytes) -> None:
        runtime = self._services.runtime
        check = partition.check_enough_replicas
        appended = partition.append_now(batch, runtime.now_ms(), check)
        if appended is None:
            appended = await partition.append_queued(batch, runtime.now_ms(), runtime.in_thread, check)
        errors: list[KafkaError] = []
        delayed = DelayedWrite(runtime.clock)
        delayed.add(partition, appended.last_offset + 1, ACKS_ALL, errors.append)
        await delayed.wait(_TIMEOUT_MS)
        if errors:
            raise errors[0]


def _records_in(region: FileRegion, first: int, last: int) -> dict[int, Record]:
    """Return the records of some offsets. Blocks."""
    return {
        record.offset: record
        for entry in entries(region.read())
        if entry.last_offset >= first and not entry.is_control
        for record in entry.records()
        if first <= record.offset <= last
    }


def _letter(led: LedSharePartition, offset: int, missing: MissingLetters, record: Record | None, now_ms: int) -> Record:
    origin = {
        "__dlq.errors.topic": led.partition.topic,
        "__dlq.errors.partition": str(led.key.partition),
        "__dlq.errors.offset": str(offset),
        "__dlq.errors.group": led.key.group_id,
        "__dlq.errors.delivery.count": str(missing.delivery_count),
        "__dlq.errors.message": _REJECTED if missing.is_rejected else _DELIVERED_TOO_OFTEN,
    }
    headers = tuple((name, text.encode()) for name, text in origin.items())
    if record is None:
        return Record(0, now_ms, None, None, headers)
    return Record(0, now_ms, record.key, record.value, (*record.headers, *headers))


def _without_record(letter: Record) -> Record:
    """Return a dead letter that is too large, without what it has copied."""
    own = tuple(header for header in letter.headers if header[0].startswith("__dlq.errors."))
    return attrs.evolve(letter, key=None, value=None, headers=own)


def _parts(letters: Sequence[Record], bytes_max: int) -> list[list[Record]]:
    """Divide dead letters into batches that a topic accepts."""
    parts: list[list[Record]] = []
    left = 0
    for letter in letters:
        size = _size(letter)
        if not parts or size > left:
            parts.append([])
            left = bytes_max - _BATCH_OVERHEAD_BYTES
        parts[-1].append(letter)
        left -= size
    return parts


def _size(letter: Record) -> int:
    """Return a bound of a dead letter's bytes in a batch."""
    headers = sum(len(name.encode()) + len(value or b"") + 10 for name, value in letter.headers)
    return _RECORD_OVERHEAD_BYTES + len(letter.key or b"") + len(letter.value or b"") + headers
