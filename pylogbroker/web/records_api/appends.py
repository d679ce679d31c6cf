"""Batches of new records, which go the way of every produce request.

The broker of the leader handles them: this one, or another one by a request between brokers. So rights, checks, limits
and errors are those of Kafka's clients. Quotas are this broker's: the answer waits as long as a client would be
throttled.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.partition_hash import partition_of_key
from pylogbroker.records import Record, build
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import error_of
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.records_api.idempotence import EPOCH, KeyedProducer, KeyTaken
from pylogbroker.web.records_api.json_members import RECORDS_MAX
from pylogbroker.web.records_api.json_records import NewRecord
from pylogbroker.web.responsible_brokers import leader_of
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

ACKS: Final[Mapping[str, int]] = {"all": -1, "1": 1}
TIMEOUT_MS: Final = 10_000
_PRODUCE_VERSION: Final = 8
"""The first one with errors of single records: other brokers of the cluster may be old."""

_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_BATCH_OVERHEAD_BYTES: Final = 61
_BUILT_INLINE_BYTES: Final = 16 * 1024
"""Larger batches are encoded in a worker thread."""
_PLANNED_INLINE: Final = 200
"""More records are divided into batches in a worker thread."""
_RECORD_BYTES: Final = 200
"""Cost to encode a record, as a number of bytes that is added to its own."""


@attrs.frozen
class Written:
    """Place of a record in the log.

    The timestamp is None if an earlier request with the same key may have chosen it.
    """

    partition: int
    offset: int
    timestamp: int | None


Outcome = Written | KafkaError


@attrs.frozen
class _Batch:
    """Records of a request for one partition; `places` are their places in the request."""

    partition: int
    places: Sequence[int]
    records: Sequence[Record]
    size: int
    timed: frozenset[int]
    """Places of records whose timestamp the request has."""


@attrs.define(eq=False, repr=False)
class Appender:
    """Writes the records of one request to a topic."""

    _visitor: Visitor
    topic: str
    _acks: int
    _keyed: KeyedProducer | None
    _failed: dict[int, KafkaError] = attrs.field(factory=dict, init=False)
    """Partitions that take no further records of a request with a key: their order would have a gap."""
    _last_partition: int = attrs.field(default=-1, init=False)

    async def append(self, records: Sequence[NewRecord]) -> list[Outcome]:
        """Write records; return the outcome of each. Raise KafkaError for a topic that the visitor may not write."""
        services = self._visitor.services
        self._visitor.check(AclOperation.WRITE, AclResourceType.TOPIC, self.topic)
        partitions = services.metadata.require_topic(self.topic).partitions
        led = [index for index, state in partitions.items() if state.leader != NO_LEADER] or [*partitions]
        settings = services.config.topic(services.metadata.topic_settings(self.topic))
        bytes_max = settings.max_message_bytes - _BATCH_OVERHEAD_BYTES
        keyless = self._keyless_partition(led, len(partitions))
        arguments = records, self.topic, len(partitions), keyless, bytes_max, services.runtime.now_ms()
        if len(records) <= _PLANNED_INLINE:
            rounds, outcomes = _plan(*arguments)
        else:
            rounds, outcomes = await services.runtime.in_thread(_plan, *arguments)
        for batches in rounds:
            await self._append_round(batches, outcomes)
        return outcomes

    def _keyless_partition(self, led: Sequence[int], count: int) -> int:
        """Return the partition of all records of a request that have no key."""
        if self._keyed is not None:
            return self._keyed.partition_seed % count
        if self._last_partition not in led:
            self._last_partition = random.choice(led)
        return self._last_partition

    async def _append_round(self, batches: Mapping[int, _Batch], outcomes: list[Outcome]) -> None:
        """Write one batch to each of some partitions."""
        by_leader: dict[int, list[_Batch]] = {}
        for index, batch in batches.items():
            try:
                if index in self._failed:
                    raise self._failed[index]
                by_leader.setdefault(leader_of(self._visitor, self.topic, index), []).append(batch)
            except KafkaError as error:
                self._fail(batch, error, outcomes)
        for leader, led in by_leader.items():
            rows: list[PartitionProduceData] = []
            sent: dict[int, _Batch] = {}
            for batch in led:
                try:
                    data = await self._encoded(batch)
                except KafkaError as error:
                    self._fail(batch, error, outcomes)
                else:
                    rows.append(PartitionProduceData(batch.partition, data))
                    sent[batch.partition] = batch
            if not sent:
                continue
            request = ProduceRequest(None, self._acks, TIMEOUT_MS, [TopicProduceData(self.topic, rows)])
            size = sum(len(row.records or b"") for row in rows)
            try:
                answer = await self._visitor.ask_as_client(request, size, leader, _PRODUCE_VERSION)
                results = rows_by_key(answer, "responses.partition_responses", leader, sent, lambda _, row: row.index)
            except KafkaError as error:
                for batch in sent.values():
                    self._fail(batch, error, outcomes)
            else:
                for index, batch in sent.items():
                    self._settle(batch, results[index], outcomes)

    async def _encoded(self, batch: _Batch) -> bytes:
        services = self._visitor.services
        producer_id, epoch, sequence = -1, -1, -1
        if self._keyed is not None:
            producer_id, epoch = self._keyed.producer_id, EPOCH
            sequence = self._keyed.sequence(services, self.topic, batch.partition, len(batch.records))

        def encode() -> bytes:
            return build(batch.records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)

        if batch.size + _RECORD_BYTES * len(batch.records) <= _BUILT_INLINE_BYTES:
            return encode()
        data: bytes = await services.runtime.in_thread(encode)
        return data

    def _settle(self, batch: _Batch, row: PartitionProduceResponse, outcomes: list[Outcome]) -> None:
        if not row.error_code:
            for number, (place, record) in enumerate(zip(batch.places, batch.records, strict=True)):
                timestamp = record.timestamp if row.log_append_time_ms < 0 else row.log_append_time_ms
                is_known = self._keyed is None or place in batch.timed
                outcomes[place] = Written(batch.partition, row.base_offset + number, timestamp if is_known else None)
            return
        error = error_of(row.error_code, row.error_message)
        if error.code in _TOO_LARGE:
            error = KafkaError(
                f"{error.detail.rstrip('.')}: raise max.message.bytes of the topic, or write smaller records",
                error.code,
            )
        if self._keyed is not None and error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            error = KeyTaken(
                "a request with this Idempotency-Key has written other records: a retry must have the same ones, and "
                "other records another key",
                error.code,
            )
        self._fail(batch, error, outcomes)
        wrong = {row.batch_index: row.batch_index_error_message for row in row.record_errors}
        if wrong:
            first = batch.places[min(wrong)] if 0 <= min(wrong) < len(batch.places) else batch.places[0]
            for number, place in enumerate(batch.places):
                reason = wrong.get(number)
                if reason is None:
                    reason = f"not written, since record {first + 1} of the same request is rejected"
                outcomes[place] = KafkaError(reason, error.code)

    def _fail(self, batch: _Batch, error: KafkaError, outcomes: list[Outcome]) -> None:
        if self._keyed is not None:
            self._failed.setdefault(batch.partition, error)
        for place in batch.places:
            outcomes[place] = error


def _plan(
    records: Sequence[NewRecord], topic: str, count: int, keyless: int, bytes_max: int, now_ms: int
) -> tuple[list[dict[int, _Batch]], list[Outcome]]:
    """Return rounds of batches, of each at most one for a partition, and outcomes of records without a partition."""
    outcomes: list[Outcome] = [KafkaError("not written")] * len(records)
    places: dict[int, list[list[int]]] = {}
    sizes: dict[int, int] = {}
    for place, record in enumerate(records):
        index = record.partition
        if index is None:
            index = keyless if record.key is None else partition_of_key(record.key, count)
        elif index >= count:
            outcomes[place] = KafkaError(
                f"{topic} has no partition {index}: it has {count}, from 0 on", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            continue
        size = sizes.get(index, 0)
        batches = places.setdefault(index, [[]])
        if size and (size + record.size > bytes_max or len(batches[-1]) == RECORDS_MAX):
            batches.append([])
            size = 0
        batches[-1].append(place)
        sizes[index] = size + record.size
    rounds: list[dict[int, _Batch]] = []
    for index, batches in places.items():
        for number, some in enumerate(batches):
            if number == len(rounds):
                rounds.append({})
            rounds[number][index] = _batch(index, some, records, now_ms)
    return rounds, outcomes


def _batch(index: int, places: Sequence[int], records: Sequence[NewRecord], now_ms: int) -> _Batch:
    rows = [
        Record(
            number,
            now_ms if record.timestamp is None else record.timestamp,
            record.key,
            record.value,
            record.headers,
        )
        for number, record in enumerate(records[place] for place in places)
    ]
    timed = frozenset(place for place in places if records[place].timestamp is not None)
    return _Batch(index, places, rows, sum(records[place].size for place in places), timed)
