"""OffsetFetch (9): return the offsets of groups.  Before version 2 each partition has the error of its group."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.limits import ResponseBudget, distinct_partitions
from pylogbroker.broker.services import Services
from pylogbroker.broker.slices import inline_if_short, map_in_steps
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
_NO_OFFSET = CommittedOffset(-1)

R = TypeVar("R")

Requested = Mapping[str, list[int]] | None  # partitions by topic; None for all with an offset


@serves(OffsetFetchRequest)
def handle(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Generator[None, None, OffsetFetchResponse]:
    return inline_if_short(_answer(services, context, request), _count(services, request))


def _count(services: Services, request: OffsetFetchRequest) -> int:
    requested = [(request.group_id, request.topics), *((group.group_id, group.topics) for group in request.groups)]
    return sum(
        services.groups.count_offsets(group_id)
        if topics is None
        else sum([len(each.partition_indexes) for each in topics])
        for group_id, topics in requested
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
    requested = _distinct(request.topics)
    found = _fetch(services, request.group_id, requested, request.require_stable, space)
    if version < _FIRST_WITH_OWN_ERROR:
        found = _each_with_its_error(found, requested, version)
    response = OffsetFetchResponse(error_code=found.error)
    for name, indexes in _answered(found, requested):
        of_topic = partial(_partition, OffsetFetchResponsePartition, found, name)
        response.topics.append(OffsetFetchResponseTopic(name, (yield from map_in_steps(of_topic, indexes))))
    return response


def _groups(named: Sequence[OffsetFetchRequestGroup]) -> dict[str, Requested]:
    topics: dict[str, list[OffsetFetchRequestTopics]] = {}
    for group in named:
        topics.setdefault(group.group_id, []).extend(group.topics or ())
    wants_all = {group.group_id for group in named if group.topics is None}
    return {group_id: None if group_id in wants_all else _distinct(wanted) for group_id, wanted in topics.items()}


def _distinct(topics: Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics] | None) -> Requested:
    if topics is None:
        return None
    return distinct_partitions((topic.name, topic.partition_indexes) for topic in topics)


def _group(
    services: Services, group_id: str, requested: Requested, require_stable: bool, space: ResponseBudget
) -> Generator[None, None, OffsetFetchResponseGroup]:
    found = _fetch(services, group_id, requested, require_stable, space)
    group = OffsetFetchResponseGroup(group_id, [], found.error)
    for name, indexes in _answered(found, requested):
        of_topic = partial(_partition, OffsetFetchResponsePartitions, found, name)
        group.topics.append(OffsetFetchResponseTopics(name, (yield from map_in_steps(of_topic, indexes))))
    return group


def _fetch(
    services: Services, group_id: str, requested: Requested, require_stable: bool, space: ResponseBudget
) -> FetchResult:
    found = services.groups.fetch(group_id, None if requested is None else _partitions(requested), require_stable)
    try:
        space.take(sum(len(each.metadata) for each in found.offsets.values() if isinstance(each, CommittedOffset)))
    except KafkaError as error:
        return FetchResult(error.code)
    return found


def _partitions(requested: Requested) -> list[TopicPartition]:
    return [(name, index) for name, indexes in (requested or {}).items() for index in indexes]


def _each_with_its_error(found: FetchResult, requested: Requested, version: int) -> FetchResult:
    """Return errors per partition, for versions 0 and 1; in version 0 a missing offset is an error."""
    nothing = None if version else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return FetchResult(
        ErrorCode.NONE,
        {partition: found.error or found.offsets.get(partition) or nothing for partition in _partitions(requested)},
    )


def _answered(found: FetchResult, requested: Requested) -> list[tuple[str, list[int]]]:
    if found.error:
        return []
    if requested is not None:
        return list(requested.items())
    topics: dict[str, list[int]] = {}
    for name, index in found.offsets:
        topics.setdefault(name, []).append(index)
    return list(topics.items())


def _partition(
    make: Callable[[int, int, int, str | None, ErrorCode], R], found: FetchResult, topic: str, index: int
) -> R:
    offset = found.offsets.get((topic, index))
    error = offset if isinstance(offset, ErrorCode) else ErrorCode.NONE
    known = offset if isinstance(offset, CommittedOffset) else _NO_OFFSET
    return make(index, known.offset, known.leader_epoch, known.metadata, error)
