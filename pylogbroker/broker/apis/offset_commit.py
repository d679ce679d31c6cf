"""OffsetCommit (8): store how far a group has come.

0  without membership                     6  leader epochs
1  membership, a timestamp per offset     7  static members
2  a retention time in its place          8  flexible
3  throttle_time_ms                       9  as 8
5  no retention time: the broker's holds

An offset with a retention time of its own expires by that, as old clients expect, and not with the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Commit, CommitResult, CommittedOffset, TopicPartition
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker

_NOT_GIVEN = -1
_END_OF_TIME = 2**63 - 1  # as far as a timestamp reaches


def handle(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Deferred[OffsetCommitResponse]:
    """Hand the offsets of partitions that there are to the coordinator."""
    now_ms = broker.now_ms()
    offsets = _offsets(broker, request, now_ms)
    if not offsets:
        return _response({}, request)
    commit = Commit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        offsets,
        request.group_instance_id,
    )
    replied: Deferred[CommitResult] = Deferred()
    broker.groups.commit(commit, replied.callback, now_ms)
    return replied.addCallback(_response, request)


def _offsets(broker: Broker, request: OffsetCommitRequest, now_ms: int) -> dict[TopicPartition, CommittedOffset]:
    retention_ms = request.retention_time_ms
    expires = None if retention_ms == _NOT_GIVEN else min(now_ms + retention_ms, _END_OF_TIME)
    offsets = {}
    for topic in request.topics:
        known = broker.catalog.topics.get(topic.name)
        for partition in topic.partitions:
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


def _response(result: CommitResult, request: OffsetCommitRequest) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                [
                    OffsetCommitResponsePartition(
                        partition.partition_index,
                        result.get((topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
