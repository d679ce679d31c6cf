"""OffsetCommit (8): store the offsets of a group.

Old clients send offsets with a retention time; these expire by it and not with the group.

The connection waits until the coordinator has the offsets, so that no later commit overtakes them.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.requested_partitions import existing_partitions
from pylogbroker.broker.requests.topic_ids import name_topics
from pylogbroker.broker.security.rejections import reject_partitions, reject_topics
from pylogbroker.broker.security.rules import on_group, on_topics
from pylogbroker.broker.services import HasGroups, HasMetadata, HasRuntime
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Commit, CommitResult, CommittedOffset
from pylogbroker.long_loops import mapped
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_FIRST_BY_ID = 10
_NOT_GIVEN = -1
_FIRST_WITH_EPOCHS = 9
_TIMESTAMP_MAX = 2**63 - 1


_reject_topic = reject_partitions(
    OffsetCommitResponseTopic,
    lambda partition, code: OffsetCommitResponsePartition(partition.partition_index, code),
    has_id=True,
)
_reject = reject_topics(lambda topics: OffsetCommitResponse(topics=topics), _reject_topic)


class _Services(HasRuntime, HasMetadata, HasGroups, Protocol):
    """Services that this API uses."""


@serves(
    OffsetCommitRequest,
    access=[
        on_group(AclOperation.READ, _reject),
        on_topics(AclOperation.READ, _reject_topic, first_by_id=_FIRST_BY_ID),
    ],
)
async def handle(services: _Services, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if context.api_version >= _FIRST_BY_ID:
        await name_topics(services.metadata.image, request.topics)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    now_ms, retention_ms = services.runtime.now_ms(), request.retention_time_ms
    expires = None if retention_ms == _NOT_GIVEN else min(now_ms + retention_ms, _TIMESTAMP_MAX)
    offsets = await existing_partitions(services, request.topics, lambda partition: _offset(partition, now_ms, expires))
    if not offsets:
        return await _response({}, request, unknown)
    commit = Commit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        offsets,
        request.group_instance_id,
        knows_epochs=context.api_version >= _FIRST_WITH_EPOCHS,
    )
    replied: Deferred[CommitResult] = Deferred()
    services.groups.commit(commit, replied.callback, now_ms)
    return await _response(await replied, request, unknown)


def _offset(partition: OffsetCommitRequestPartition, now_ms: int, expires: int | None) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now_ms if partition.commit_timestamp == _NOT_GIVEN else partition.commit_timestamp,
        expires,
    )


async def _response(result: CommitResult, request: OffsetCommitRequest, unknown: ErrorCode) -> OffsetCommitResponse:
    """Return the answer; topics without a name, which are of `unknown` ids, have this error."""
    response = OffsetCommitResponse()
    for topic in request.topics:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic.name else unknown
        partitions = await mapped(partial(_partition, result, topic.name, missing), topic.partitions)
        response.topics.append(OffsetCommitResponseTopic(topic.name, partitions, topic.topic_id))
    return response


def _partition(
    result: CommitResult, topic: str, missing: ErrorCode, partition: OffsetCommitRequestPartition
) -> OffsetCommitResponsePartition:
    index = partition.partition_index
    return OffsetCommitResponsePartition(index, result.get((topic, index), missing))
