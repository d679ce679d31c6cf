"""DeleteRecords (21): raise a log's start offset; consumers no longer see the records below it.

-1 stands for the high watermark. The response has the low watermark, or -1 with an error.
"""

from __future__ import annotations

from typing import Protocol

from pylogbroker.broker.partitions.delayed_write import DelayedWrite
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rejections import reject_partitions
from pylogbroker.broker.security.rules import on_topics
from pylogbroker.broker.services import HasPartitions, HasRuntime
from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange
from pylogbroker.long_loops import over
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.storage import Log
from pylogbroker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_TO_HIGH_WATERMARK = -1
_NO_LOW_WATERMARK = -1


_reject_topic = reject_partitions(
    DeleteRecordsTopicResult,
    lambda partition, code: DeleteRecordsPartitionResult(partition.partition_index, _NO_LOW_WATERMARK, code),
)


class _Services(HasRuntime, HasPartitions, Protocol):
    """Services that this API uses."""


@serves(DeleteRecordsRequest, access=[on_topics(AclOperation.DELETE, _reject_topic)])
async def handle(services: _Services, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete from each partition; wait until the low watermarks reach the offsets."""
    delayed = DelayedWrite(services.runtime.clock)
    topics = []
    async for topic in over(request.topics):
        results = [_attempt(services, topic.name, partition, delayed) async for partition in over(topic.partitions)]
        topics.append(DeleteRecordsTopicResult(topic.name, results))
    await delayed.wait(request.timeout_ms)
    return DeleteRecordsResponse(topics=topics)


def _attempt(
    services: _Services, topic: str, deletion: DeleteRecordsPartition, delayed: DelayedWrite
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(deletion.partition_index)

    def fail(error: KafkaError) -> None:
        result.low_watermark, result.error_code = _NO_LOW_WATERMARK, error.code

    try:
        partition = services.partitions.find(topic, deletion.partition_index)
        result.low_watermark = _delete(partition, deletion.offset)
    except KafkaError as error:
        fail(error)
    else:
        delayed.add(partition, result.low_watermark, (Mark.LOW_WATERMARK,), fail)
    return result


def _delete(partition: Partition, offset: int) -> int:
    log, topic = partition.log, partition.topic
    if topic in INTERNAL_TOPICS:
        raise KafkaError(f"{topic} is the broker's own", ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not log.config.deletes:
        raise KafkaError("cleanup.policy of the topic does not have 'delete'", ErrorCode.POLICY_VIOLATION)
    partition.delete_records_before(_checked(log, offset))
    return log.log_start_offset


def _checked(log: Log, offset: int) -> int:
    if offset == _TO_HIGH_WATERMARK:
        return log.high_watermark
    if not 0 <= offset <= log.high_watermark:
        raise OffsetOutOfRange(f"{offset} is not between 0 and the high watermark {log.high_watermark}")
    return offset
