"""TxnOffsetCommit (28): store the offsets of a group in the producer's transaction.

The transaction must have the group's partition of `__consumer_offsets` (AddOffsetsToTxn); from version 5 on, the
request adds it. Versions 0 and 1 have no error of a loading coordinator.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from twisted.internet.defer import Deferred

from pylogbroker.broker.partitions.transaction_verification import AskedCoordinator, add_partition, ask_about
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.requested_partitions import existing_partitions
from pylogbroker.broker.requests.topic_ids import name_topics
from pylogbroker.broker.security.rejections import reject_partitions, reject_topics
from pylogbroker.broker.security.rules import on_group, on_topics, on_transactional_id
from pylogbroker.broker.services import (
    HasConfig,
    HasGroups,
    HasMetadata,
    HasPartitions,
    HasRuntime,
    HasTransactions,
    HasTransactionService,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import CommitResult, CommittedOffset, TransactionalCommit
from pylogbroker.long_loops import mapped
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_FIRST_WITH_LOADING = 2
_FIRST_WITH_ABORTABLE = 4
_FIRST_THAT_ADDS = 5
_FIRST_BY_ID = 6
_VERIFICATION_ERRORS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""Errors after which every client tries again."""


_reject_topic = reject_partitions(
    TxnOffsetCommitResponseTopic,
    lambda partition, code: TxnOffsetCommitResponsePartition(partition.partition_index, code),
    has_id=True,
)
_reject = reject_topics(lambda topics: TxnOffsetCommitResponse(topics=topics), _reject_topic)


class _Services(
    HasConfig, HasRuntime, HasMetadata, HasPartitions, HasGroups, HasTransactions, HasTransactionService, Protocol
):
    """Services that this API uses."""


@serves(
    TxnOffsetCommitRequest,
    access=[
        on_transactional_id(AclOperation.WRITE, _reject),
        on_group(AclOperation.READ, _reject),
        on_topics(AclOperation.READ, _reject_topic, first_by_id=_FIRST_BY_ID),
    ],
)
async def handle(
    services: _Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """The connection waits until the coordinator has the offsets."""
    now_ms, version = services.runtime.now_ms(), context.api_version
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version >= _FIRST_BY_ID:
        await name_topics(services.metadata.image, request.topics)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    offsets = await existing_partitions(services, request.topics, lambda partition: _offset(partition, now_ms))
    replied: Deferred[CommitResult] = Deferred()
    commit = TransactionalCommit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        offsets,
        request.group_instance_id,
        request.producer_id,
        request.producer_epoch,
    )
    verification = _ask_coordinator(services, request, version) if offsets else None
    if verification is not None:
        verification.answer().addCallback(_commit_if_verified, verification, services, commit, replied)
    else:
        error = _verified(services, request) if offsets and version < _FIRST_THAT_ADDS else ErrorCode.NONE
        _commit_unless(error, services, commit, replied)
    return await _response(await replied, request, version, unknown)


def _ask_coordinator(services: _Services, request: TxnOffsetCommitRequest, version: int) -> AskedCoordinator | None:
    """Ask the transaction's coordinator, if that has to be before the commit, and this broker has the group's."""
    partition = services.partitions.led.get((OFFSETS_TOPIC, services.groups.partition_for(request.group_id)))
    if partition is None:
        return None
    producer = request.producer_id, request.producer_epoch
    if version >= _FIRST_THAT_ADDS:
        return add_partition(services, request.transactional_id, partition, *producer)
    if not services.config.transaction_partition_verification_enable:
        return None
    return ask_about(services, request.transactional_id, partition, *producer, 0)


def _commit_if_verified(
    answer: ErrorCode,
    coordinator: AskedCoordinator,
    services: _Services,
    commit: TransactionalCommit,
    replied: Deferred[CommitResult],
) -> None:
    error = coordinator.error_now(answer)
    coordinator.close()
    _commit_unless(_VERIFICATION_ERRORS.get(error, error), services, commit, replied)


def _commit_unless(
    error: ErrorCode, services: _Services, commit: TransactionalCommit, replied: Deferred[CommitResult]
) -> None:
    if error or not commit.offsets:
        replied.callback(dict.fromkeys(commit.offsets, error))
    else:
        services.groups.commit_in_transaction(commit, replied.callback, services.runtime.now_ms())


def _offset(partition: TxnOffsetCommitRequestPartition, now_ms: int) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata or "", now_ms
    )


def _verified(services: _Services, request: TxnOffsetCommitRequest) -> ErrorCode:
    if not services.config.transaction_partition_verification_enable:
        return ErrorCode.NONE
    key = OFFSETS_TOPIC, services.groups.partition_for(request.group_id)
    errors = services.transactions.verify(request.transactional_id, request.producer_id, request.producer_epoch, [key])
    return errors[key]


async def _response(
    result: CommitResult, request: TxnOffsetCommitRequest, version: int, unknown: ErrorCode
) -> TxnOffsetCommitResponse:
    """Return the answer; topics without a name, which are of `unknown` ids, have this error."""
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic.name else unknown
        partitions = await mapped(partial(_partition, result, version, topic.name, missing), topic.partitions)
        response.topics.append(TxnOffsetCommitResponseTopic(topic.name, partitions, topic.topic_id))
    return response


def _partition(
    result: CommitResult, version: int, topic: str, missing: ErrorCode, partition: TxnOffsetCommitRequestPartition
) -> TxnOffsetCommitResponsePartition:
    index = partition.partition_index
    error = result.get((topic, index), missing)
    return TxnOffsetCommitResponsePartition(index, _error_for(error, version))


def _error_for(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _FIRST_WITH_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
