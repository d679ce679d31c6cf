"""OffsetFetch (9): return the offsets of groups.

Before version 2 each partition has the error of its group. From version 10 on, topics have ids for names. Offsets of
topics that do not exist any more are left out there, unless the request names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import NamedTuple, Protocol, TypeVar

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import ResponseBudget, distinct_partitions
from pylogbroker.broker.requests.topic_ids import name_topics
from pylogbroker.broker.security.rules import by_handler
from pylogbroker.broker.security.visibility import may_see_topic
from pylogbroker.broker.services import HasGroups, HasMetadata
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import CommittedOffset, FetchResult
from pylogbroker.long_loops import give_way, mapped, over
from pylogbroker.security.acls.bindings import AclOperation
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
_FIRST_BY_ID = 10
_NO_OFFSET = CommittedOffset(-1)

R = TypeVar("R")


class _Reader(NamedTuple):
    """Member of a consumer group that fetches offsets, if it says so."""

    member_id: str | None = None
    epoch: int = -1


_NOBODY = _Reader()
_Requested = Mapping[str, list[int]] | None  # partitions by topic; None for all with an offset


class _Services(HasGroups, HasMetadata, Protocol):
    """Services that this API uses."""


@serves(OffsetFetchRequest, access=[by_handler])
async def handle(services: _Services, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    version, space = context.api_version, ResponseBudget()
    if version >= _FIRST_WITH_GROUPS:
        response = OffsetFetchResponse()
        readers = {group.group_id: _Reader(group.member_id, group.member_epoch) for group in request.groups}
        unknown: dict[str, list[OffsetFetchResponseTopics]] = {}
        if version >= _FIRST_BY_ID:
            unknown = await _name_topics(services, request.groups)
        for group_id, partitions in (await _groups(request.groups)).items():
            reader, stable = readers[group_id], request.require_stable
            group = await _group(services, context, group_id, partitions, stable, space, reader)
            response.groups.append(group)
            if version >= _FIRST_BY_ID and not group.error_code:
                await _set_ids(services, group)
                group.topics += unknown.get(group_id, ())
        return response
    requested = _distinct(request.topics)
    fetched = await _fetch(services, context, request.group_id, requested, request.require_stable, space)
    if version < _FIRST_WITH_OWN_ERROR:
        fetched = _each_with_its_error(fetched, requested, version)
    response = OffsetFetchResponse(error_code=fetched.error)
    for name, indexes in _answered(fetched, requested):
        of_topic = partial(_partition, OffsetFetchResponsePartition, fetched, name)
        response.topics.append(OffsetFetchResponseTopic(name, await mapped(of_topic, indexes)))
    return response


async def _name_topics(
    services: HasMetadata, groups: Sequence[OffsetFetchRequestGroup]
) -> dict[str, list[OffsetFetchResponseTopics]]:
    """Set the names of topics with known ids, and remove the others; return answers about these, by group."""
    unknown: dict[str, list[OffsetFetchResponseTopics]] = {}
    for group in groups:
        if group.topics is None:
            continue
        await name_topics(services.metadata.image, group.topics)
        async for topic in over([topic for topic in group.topics if not topic.name]):
            partitions = await mapped(_of_unknown_topic, topic.partition_indexes)
            answer = OffsetFetchResponseTopics("", partitions, topic.topic_id)
            unknown.setdefault(group.group_id, []).append(answer)
        group.topics = [topic for topic in group.topics if topic.name]
    return unknown


def _of_unknown_topic(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(index, -1, error_code=ErrorCode.UNKNOWN_TOPIC_ID)


async def _set_ids(services: HasMetadata, group: OffsetFetchResponseGroup) -> None:
    topics = services.metadata.topics
    group.topics = [topic for topic in group.topics if topic.name in topics]
    async for topic in over(group.topics):
        topic.topic_id = topics[topic.name].id


async def _groups(named: Sequence[OffsetFetchRequestGroup]) -> dict[str, _Requested]:
    topics: dict[str, list[OffsetFetchRequestTopics]] = {}
    wants_all: set[str] = set()
    for group in named:
        topics.setdefault(group.group_id, []).extend(group.topics or ())
        if group.topics is None:
            wants_all.add(group.group_id)
        await give_way()
    groups: dict[str, _Requested] = {}
    for group_id, requests in topics.items():
        groups[group_id] = None if group_id in wants_all else _distinct(requests)
        await give_way()
    return groups


def _distinct(topics: Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics] | None) -> _Requested:
    if topics is None:
        return None
    return distinct_partitions((topic.name, topic.partition_indexes) for topic in topics)


async def _group(
    services: HasGroups,
    context: RequestContext,
    group_id: str,
    requested: _Requested,
    require_stable: bool,
    space: ResponseBudget,
    reader: _Reader,
) -> OffsetFetchResponseGroup:
    fetched = await _fetch(services, context, group_id, requested, require_stable, space, reader)
    group = OffsetFetchResponseGroup(group_id, [], fetched.error)
    for name, indexes in _answered(fetched, requested):
        of_topic = partial(_partition, OffsetFetchResponsePartitions, fetched, name)
        group.topics.append(OffsetFetchResponseTopics(name, await mapped(of_topic, indexes)))
    return group


async def _fetch(
    services: HasGroups,
    context: RequestContext,
    group_id: str,
    requested: _Requested,
    require_stable: bool,
    space: ResponseBudget,
    reader: _Reader = _NOBODY,
) -> FetchResult:
    """Return offsets of topics that the client may see; for others that it names, an error."""
    await give_way()
    if context.access is not None and not context.access.allows_on_group(AclOperation.DESCRIBE, group_id):
        return FetchResult(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    hidden = await _hidden_topics(context, requested)
    partitions = None if requested is None else [key for key in _partitions(requested) if key[0] not in hidden]
    await give_way()
    fetched = services.groups.fetch(group_id, partitions, require_stable, *reader)
    await give_way()
    if context.access is not None and not fetched.error:
        fetched = await _only_visible(context, fetched, requested, hidden)
    try:
        space.take(
            sum([len(offset.metadata) for offset in fetched.offsets.values() if isinstance(offset, CommittedOffset)])
        )
    except KafkaError as error:
        return FetchResult(error.code)
    return fetched


async def _hidden_topics(context: RequestContext, requested: _Requested) -> set[str]:
    """Return the named topics that the client may not see."""
    access = context.access
    if access is None or requested is None:
        return set()
    may_see = await mapped(partial(access.allows_on_topic, AclOperation.DESCRIBE), requested)
    return {name for name, seen in zip(requested, may_see, strict=True) if not seen}


async def _only_visible(
    context: RequestContext, fetched: FetchResult, requested: _Requested, hidden: set[str]
) -> FetchResult:
    if requested is None:
        names = {name for name, _ in fetched.offsets}
        seen = set(compress(names, await mapped(partial(may_see_topic, context), names)))
        return FetchResult(fetched.error, {key: offset for key, offset in fetched.offsets.items() if key[0] in seen})
    denied = [key for key in _partitions(requested) if key[0] in hidden]
    return FetchResult(
        fetched.error, {**fetched.offsets, **dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
    )


def _partitions(requested: _Requested) -> list[TopicPartition]:
    return [(name, index) for name, indexes in (requested or {}).items() for index in indexes]


def _each_with_its_error(fetched: FetchResult, requested: _Requested, version: int) -> FetchResult:
    """Return errors per partition, for versions 0 and 1; in version 0 a missing offset is an error."""
    nothing = None if version else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return FetchResult(
        ErrorCode.NONE,
        {partition: fetched.error or fetched.offsets.get(partition) or nothing for partition in _partitions(requested)},
    )


def _answered(fetched: FetchResult, requested: _Requested) -> list[tuple[str, list[int]]]:
    if fetched.error:
        return []
    if requested is not None:
        return list(requested.items())
    topics: dict[str, list[int]] = {}
    for name, index in fetched.offsets:
        topics.setdefault(name, []).append(index)
    return list(topics.items())


def _partition(
    make: Callable[[int, int, int, str | None, ErrorCode], R], fetched: FetchResult, topic: str, index: int
) -> R:
    offset = fetched.offsets.get((topic, index))
    error = offset if isinstance(offset, ErrorCode) else ErrorCode.NONE
    committed = offset if isinstance(offset, CommittedOffset) else _NO_OFFSET
    return make(index, committed.offset, committed.leader_epoch, committed.metadata, error)
