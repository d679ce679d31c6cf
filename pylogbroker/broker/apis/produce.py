"""Produce (0): records into logs.

0-1    message format 0                    8      record errors (KIP-467)
2      message format 1, log_append_time   9      flexible
3      record batches, transactional id    10     current leader in the answer (KIP-951)
5      log start offset                    11     as 10
7      zstd

From 3 on there is one record batch for each partition.  An answer to acks=0 is not sent.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from twisted.internet.defer import ensureDeferred

from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.partition import Partition
from pylogbroker.errors import ErrorCode, InvalidRecords, KafkaError, ProtocolViolation, StorageFailure
from pylogbroker.records import Buffer, Codec, entries
from pylogbroker.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker

_ACKS = (-1, 0, 1)
_MAGIC_AT = 16
_FIRST_WITH_V2 = 3
_FIRST_WITH_ZSTD = 7


def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    """Append to each partition; with `flush.messages` reached, answer when it is on the disk."""
    version, now_ms, acks = context.api_version, broker.now_ms(), request.acks
    unsynced: list[tuple[Partition, PartitionProduceResponse]] = []
    topics = []
    for topic in request.topic_data:
        answers = []
        for data in topic.partition_data:
            try:
                partition = broker.partitions.get((topic.name, data.index))
                if partition is None:
                    partition = broker.find(topic.name, data.index)
                records = _checked(partition, data, acks, version)
                appended = partition.append(records, now_ms)
            except KafkaError as error:
                answers.append(_refused(data.index, error))
                if isinstance(error, StorageFailure) and partition is not None:
                    broker.storage_failed(partition.log)
            else:
                answer = PartitionProduceResponse(
                    data.index, 0, appended.base_offset, appended.log_append_time, appended.log_start_offset
                )
                answers.append(answer)
                if appended.must_sync:
                    unsynced.append((partition, answer))
        topics.append(TopicProduceResponse(topic.name, answers))
    response = ProduceResponse(topics)
    if acks == 0:
        _end_without_answer(broker, response, unsynced)
        return None
    return _after_sync(broker, response, unsynced) if unsynced else response


def _checked(partition: Partition, data: PartitionProduceData, acks: int, version: int) -> Buffer:
    """The records, after what must hold before any look into them."""
    if acks not in _ACKS:
        raise KafkaError(f"acks={acks} is neither 0, 1 nor -1", ErrorCode.INVALID_REQUIRED_ACKS)
    if acks == -1 and partition.min_insync_replicas > 1:
        raise KafkaError(
            f"min.insync.replicas={partition.min_insync_replicas}, but one replica is in sync",
            ErrorCode.NOT_ENOUGH_REPLICAS,
        )
    if partition.is_internal:
        raise KafkaError(f"{partition.topic} is written by the broker alone", ErrorCode.INVALID_TOPIC_EXCEPTION)
    records = data.records
    if records is None or len(records) <= _MAGIC_AT:
        raise InvalidRecords("a produce request needs at least one record for each partition")
    if version >= _FIRST_WITH_V2 and records[_MAGIC_AT] != 2:
        raise InvalidRecords(f"Produce {version} takes record batches (magic 2), not magic {records[_MAGIC_AT]}")
    if version < _FIRST_WITH_ZSTD and any(entry.codec is Codec.ZSTD for entry in entries(records)):
        raise KafkaError(f"Produce {version} does not know zstd", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return records


def _refused(index: int, error: KafkaError) -> PartitionProduceResponse:
    errors = error.record_errors if isinstance(error, InvalidRecords) else ()
    return PartitionProduceResponse(
        index,
        error.code,
        base_offset=-1,
        log_start_offset=-1,
        record_errors=[BatchIndexAndErrorMessage(at, message) for at, message in errors],
        error_message=error.detail,
    )


async def _after_sync(
    broker: Broker, response: ProduceResponse, unsynced: list[tuple[Partition, PartitionProduceResponse]]
) -> ProduceResponse:
    syncs = [broker.group_commit.sync(partition.log) for partition, _answer in unsynced]
    for (partition, answer), sync in zip(unsynced, syncs, strict=True):
        try:
            await sync
        except KafkaError as error:
            answer.error_code, answer.base_offset, answer.error_message = error.code, -1, error.detail
            broker.storage_failed(partition.log)
        else:
            partition.synced()
    return response


def _end_without_answer(
    broker: Broker, response: ProduceResponse, unsynced: list[tuple[Partition, PartitionProduceResponse]]
) -> None:
    """acks=0: an error can be told only by closing the connection, so that the client asks for metadata again."""
    if unsynced:
        ensureDeferred(_after_sync(broker, response, unsynced))
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise ProtocolViolation(
                    f"a produce with acks=0 to {topic.name}-{answer.index} failed: {answer.error_message}"
                )
