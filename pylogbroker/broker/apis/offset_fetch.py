"""OffsetFetch (9): how far groups have come.

0  an unknown offset is UNKNOWN_TOPIC_OR_PARTITION    5  leader epochs
1  an unknown offset is -1                            6  flexible
2  all partitions (null), an error for the request    7  require_stable
3  throttle_time_ms                                   8  several groups
                                                      9  as 8

Before version 2 an error of the group is that of each partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import CommittedOffset, FetchResult, TopicPartition
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker

_FIRST_WITH_OWN_ERROR = 2
_FIRST_WITH_GROUPS = 8
_NOTHING = CommittedOffset(-1)

Asked = Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics] | None


def handle(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Look the offsets up."""
    version = context.api_version
    if version >= _FIRST_WITH_GROUPS:
        return OffsetFetchResponse(groups=[_group(broker, group, request.require_stable) for group in request.groups])
    found = _fetch(broker, request.group_id, request.topics, request.require_stable)
    if version < _FIRST_WITH_OWN_ERROR:
        found = _each_with_its_error(found, request.topics, version)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name, [OffsetFetchResponsePartition(*_partition(found, name, index)) for index in indexes]
            )
            for name, indexes in _answered(found, request.topics)
        ],
        error_code=found.error,
    )


def _group(broker: Broker, group: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    found = _fetch(broker, group.group_id, group.topics, require_stable)
    topics = [
        OffsetFetchResponseTopics(
            name, [OffsetFetchResponsePartitions(*_partition(found, name, index)) for index in indexes]
        )
        for name, indexes in _answered(found, group.topics)
    ]
    return OffsetFetchResponseGroup(group.group_id, topics, found.error)


def _fetch(broker: Broker, group_id: str, asked: Asked, require_stable: bool) -> FetchResult:
    return broker.groups.fetch(group_id, None if asked is None else _partitions(asked), require_stable)


def _partitions(asked: Asked) -> list[TopicPartition]:
    return [(topic.name, index) for topic in asked or () for index in topic.partition_indexes]


def _each_with_its_error(found: FetchResult, asked: Asked, version: int) -> FetchResult:
    """The old way: no error but that of each partition, and in version 0 nothing committed is an error too."""
    nothing = None if version else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return FetchResult(
        ErrorCode.NONE,
        {partition: found.error or found.offsets.get(partition) or nothing for partition in _partitions(asked)},
    )


def _answered(found: FetchResult, asked: Asked) -> list[tuple[str, list[int]]]:
    """The topics and partitions of the answer: those asked for, or all."""
    if found.error:
        return []
    if asked is not None:
        return [(topic.name, topic.partition_indexes) for topic in asked]
    topics: dict[str, list[int]] = {}
    for name, index in found.offsets:
        topics.setdefault(name, []).append(index)
    return list(topics.items())


def _partition(found: FetchResult, topic: str, index: int) -> tuple[int, int, int, str, int]:
    """The fields of a partition's answer."""
    offset = found.offsets.get((topic, index))
    error = offset if isinstance(offset, ErrorCode) else ErrorCode.NONE
    known = offset if isinstance(offset, CommittedOffset) else _NOTHING
    return index, known.offset, known.leader_epoch, known.metadata, error
