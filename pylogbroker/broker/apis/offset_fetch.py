"""OffsetFetch (9): how far groups have come.

0  an unknown offset is UNKNOWN_TOPIC_OR_PARTITION    5  leader epochs
1  an unknown offset is -1                            6  flexible
2  all partitions (null), an error for the request    7  require_stable
3  throttle_time_ms                                   8  several groups
                                                      9  as 8

Before version 2 an error of the group is that of each partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pylogbroker.broker.answers import AnswerSpace, partitions_once
from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode, KafkaError
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

Asked = Mapping[str, list[int]] | None  # partitions by their topics, or all that there are offsets of


def handle(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Look the offsets up: of each group once, and of each partition."""
    version, space = context.api_version, AnswerSpace()
    if version >= _FIRST_WITH_GROUPS:
        groups = _groups(request.groups)
        return OffsetFetchResponse(
            groups=[_group(broker, group_id, groups[group_id], request.require_stable, space) for group_id in groups]
        )
    asked = _once(request.topics)
    found = _fetch(broker, request.group_id, asked, request.require_stable, space)
    if version < _FIRST_WITH_OWN_ERROR:
        found = _each_with_its_error(found, asked, version)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name, [OffsetFetchResponsePartition(*_partition(found, name, index)) for index in indexes]
            )
            for name, indexes in _answered(found, asked)
        ],
        error_code=found.error,
    )


def _groups(named: Sequence[OffsetFetchRequestGroup]) -> dict[str, Asked]:
    """What is asked of each group; one that is named twice has the partitions of both."""
    topics: dict[str, list[OffsetFetchRequestTopics]] = {}
    for group in named:
        topics.setdefault(group.group_id, []).extend(group.topics or ())
    wants_all = {group.group_id for group in named if group.topics is None}
    return {group_id: None if group_id in wants_all else _once(wanted) for group_id, wanted in topics.items()}


def _once(topics: Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics] | None) -> Asked:
    if topics is None:
        return None
    return partitions_once((topic.name, topic.partition_indexes) for topic in topics)


def _group(
    broker: Broker, group_id: str, asked: Asked, require_stable: bool, space: AnswerSpace
) -> OffsetFetchResponseGroup:
    found = _fetch(broker, group_id, asked, require_stable, space)
    topics = [
        OffsetFetchResponseTopics(
            name, [OffsetFetchResponsePartitions(*_partition(found, name, index)) for index in indexes]
        )
        for name, indexes in _answered(found, asked)
    ]
    return OffsetFetchResponseGroup(group_id, topics, found.error)


def _fetch(broker: Broker, group_id: str, asked: Asked, require_stable: bool, space: AnswerSpace) -> FetchResult:
    found = broker.groups.fetch(group_id, None if asked is None else _partitions(asked), require_stable)
    try:
        space.take(sum(len(each.metadata) for each in found.offsets.values() if isinstance(each, CommittedOffset)))
    except KafkaError as error:
        return FetchResult(error.code)
    return found


def _partitions(asked: Asked) -> list[TopicPartition]:
    return [(name, index) for name, indexes in (asked or {}).items() for index in indexes]


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
        return list(asked.items())
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
