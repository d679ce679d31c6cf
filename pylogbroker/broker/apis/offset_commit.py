"""OffsetCommit (8): store how far a group has come.

An offset with a retention time of its own expires by that, as old clients expect, and not with the group.

A request for many partitions is handled in steps.  The connection holds back its next requests until the coordinator
has the offsets, so that none overtakes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from twisted.internet.defer import Deferred

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.broker.slices import STEP_ITEMS, inline_if_short
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Commit, CommitResult, CommittedOffset
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_NOT_GIVEN = -1
_END_OF_TIME = 2**63 - 1  # as far as a timestamp reaches

Answer = OffsetCommitResponse | Awaitable[OffsetCommitResponse]


@serves(OffsetCommitRequest)
def handle(
    services: Services, context: RequestContext, request: OffsetCommitRequest
) -> Answer | Generator[None, None, Answer]:
    """Hand the offsets of partitions that there are to the coordinator."""
    count = sum([len(topic.partitions) for topic in request.topics])
    return inline_if_short(_commit(services, request, count), count)


def _commit(services: Services, request: OffsetCommitRequest, count: int) -> Generator[None, None, Answer]:
    now_ms = services.runtime.now_ms()
    offsets = yield from _offsets(services, request, now_ms)
    if not offsets:
        return (yield from _response({}, request))
    commit = Commit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        offsets,
        request.group_instance_id,
    )
    replied: Deferred[CommitResult] = Deferred()
    services.groups.commit(commit, replied.callback, now_ms)
    return _answer(services, request, count, replied)


async def _answer(
    services: Services, request: OffsetCommitRequest, count: int, replied: Deferred[CommitResult]
) -> OffsetCommitResponse:
    return await services.runtime.slices.finish(_response(await replied, request), count)


def _offsets(
    services: Services, request: OffsetCommitRequest, now_ms: int
) -> Generator[None, None, dict[TopicPartition, CommittedOffset]]:
    retention_ms = request.retention_time_ms
    expires = None if retention_ms == _NOT_GIVEN else min(now_ms + retention_ms, _END_OF_TIME)
    offsets = {}
    for topic in request.topics:
        known = services.metadata.topics.get(topic.name)
        for number, partition in enumerate(topic.partitions):
            if number % STEP_ITEMS == 0:
                yield
            if known is not None and partition.partition_index in known.partitions:
                offsets[topic.name, partition.partition_index] = _offset(partition, now_ms, expires)
    return offsets


def _offset(partition: OffsetCommitRequestPartition, now_ms: int, expires: int | None) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now_ms if partition.commit_timestamp == _NOT_GIVEN else partition.commit_timestamp,
        expires,
    )


def _response(result: CommitResult, request: OffsetCommitRequest) -> Generator[None, None, OffsetCommitResponse]:
    response = OffsetCommitResponse()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for topic in request.topics:
        answered = OffsetCommitResponseTopic(topic.name, [])
        response.topics.append(answered)
        for number, partition in enumerate(topic.partitions):
            if number % STEP_ITEMS == 0:
                yield
            index = partition.partition_index
            answered.partitions.append(OffsetCommitResponsePartition(index, result.get((topic.name, index), unknown)))
    return response
