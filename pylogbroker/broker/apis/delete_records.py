"""DeleteRecords (21): raise a log's start, so that no consumer sees what lies before.

An offset of -1 stands for the high watermark.  The answer tells the log's start, or -1 beside an error.
"""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS
from pylogbroker.storage import Log
from pylogbroker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TO_HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


@serves(DeleteRecordsRequest)
async def handle(services: Services, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete from each partition on its own."""
    found = await services.runtime.slices.each(
        request.topics, lambda topic: topic.partitions, lambda topic, wanted: _attempt(services, topic.name, wanted)
    )
    return DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(topic.name, partitions) for topic, partitions in found]
    )


def _attempt(services: Services, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        low_watermark = _delete(services, topic, wanted)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(wanted.partition_index, NO_LOW_WATERMARK, error.code)
    return DeleteRecordsPartitionResult(wanted.partition_index, low_watermark)


def _delete(services: Services, topic: str, wanted: DeleteRecordsPartition) -> int:
    log = services.partitions.find(topic, wanted.partition_index).log
    if topic in INTERNAL_TOPICS:
        raise KafkaError(f"{topic} is the broker's own", ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not log.config.deletes:
        raise KafkaError("cleanup.policy of the topic does not have 'delete'", ErrorCode.POLICY_VIOLATION)
    log.delete_records_before(_checked(log, wanted.offset))
    return log.log_start_offset


def _checked(log: Log, offset: int) -> int:
    if offset == TO_HIGH_WATERMARK:
        return log.high_watermark
    if not 0 <= offset <= log.high_watermark:
        raise OffsetOutOfRange(f"{offset} is not between 0 and the high watermark {log.high_watermark}")
    return offset
