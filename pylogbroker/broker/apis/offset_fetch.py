"""OffsetFetch (9): how far groups have come.

Before version 2 an error of the group is that of each partition.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.limits import ResponseBudget, distinct_partitions
from pylogbroker.broker.services import Services
from pylogbroker.broker.slices import STEP_ITEMS, inline_if_short
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import CommittedOffset, FetchResult
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

_FIRST_WITH_OWN_ERROR = 2
_FIRST_WITH_GROUPS = 8
_NOTHING = CommittedOffset(-1)

Asked = Mapping[str, list[int]] | None  # partitions by their topics, or all that there are offsets of


@serves(OffsetFetchRequest)
def handle(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Generator[None, None, OffsetFetchResponse]:
    """Look the offsets up: of each group once, and of each partition; many in steps."""
    return inline_if_short(_answer(services, context, request), _count(services, request))


def _count(services: Services, request: OffsetFetchRequest) -> int:
    """Count the partitions that the answer will have at most."""
    asked = [(request.group_id, request.topics), *((group.group_id, group.topics) for group in request.groups)]
    return sum(
        services.groups.count_offsets(group_id)
        if topics is None
        else sum([len(each.partition_indexes) for each in topics])
        for group_id, topics in asked
    )


def _answer(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> Generator[None, None, OffsetFetchResponse]:
    version, space = context.api_version, ResponseBudget()
    if version >= _FIRST_WITH_GROUPS:
        response = OffsetFetchResponse()
        for group_id, partitions in _groups(request.groups).items():
            response.groups.append((yield from _group(services, group_id, partitions, request.require_stable, space)))
        return response
    asked = _once(request.topics)
    found = _fetch(services, request.group_id, asked, request.require_stable, space)
    if version < _FIRST_WITH_OWN_ERROR:
        found = _each_with_its_error(found, asked, version)
    response = OffsetFetchResponse(error_code=found.error)
    for name, indexes in _answered(found, asked):
        topic = OffsetFetchResponseTopic(name, [])
        response.topics.append(topic)
        for number, index in enumerate(indexes):
            if number % STEP_ITEMS == 0:
                yield
            topic.partitions.append(OffsetFetchResponsePartition(*_partition(found, name, index)))
    return response


def _groups(named: Sequence[OffsetFetchRequestGroup]) -> dict[str, Asked]:
    """Return the partitions asked of each group; a group that is named twice has the partitions of both."""
    topics: dict[str, list[OffsetFetchRequestTopics]] = {}
    for group in named:
        topics.setdefault(group.group_id, []).extend(group.topics or ())
    wants_all = {group.group_id for group in named if group.topics is None}
    return {group_id: None if group_id in wants_all else _once(wanted) for group_id, wanted in topics.items()}


def _once(topics: Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics] | None) -> Asked:
    if topics is None:
        return None
    return distinct_partitions((topic.name, topic.partition_indexes) for topic in topics)


def _group(
    services: Services, group_id: str, asked: Asked, require_stable: bool, space: ResponseBudget
) -> Generator[None, None, OffsetFetchResponseGroup]:
    found = _fetch(services, group_id, asked, require_stable, space)
    group = OffsetFetchResponseGroup(group_id, [], found.error)
    for name, indexes in _answered(found, asked):
        topic = OffsetFetchResponseTopics(name, [])
        group.topics.append(topic)
        for number, index in enumerate(indexes):
            if number % STEP_ITEMS == 0:
                yield
            topic.partitions.append(OffsetFetchResponsePartitions(*_partition(found, name, index)))
    return group


def _fetch(services: Services, group_id: str, asked: Asked, require_stable: bool, space: ResponseBudget) -> FetchResult:
    found = services.groups.fetch(group_id, None if asked is None else _partitions(asked), require_stable)
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
