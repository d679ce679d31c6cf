"""TxnOffsetCommit (28): how far a group has come, to count once the producer's transaction is committed.

The transaction must have the group's partition of `__consumer_offsets` (AddOffsetsToTxn). Clients of versions 0 and 1
do not know that a coordinator may be loading.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from twisted.internet.defer import Deferred

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.coordinators.group_service import OFFSETS_TOPIC
from pylogbroker.broker.services import Services
from pylogbroker.broker.slices import STEP_ITEMS, inline_if_short
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import CommitResult, CommittedOffset, TransactionalCommit
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_FIRST_WITH_LOADING = 2
_FIRST_WITH_ABORTABLE = 4


@serves(TxnOffsetCommitRequest)
def handle(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> Awaitable[TxnOffsetCommitResponse] | Generator[None, None, Awaitable[TxnOffsetCommitResponse]]:
    """Hand the offsets of partitions that there are to the coordinator, if they are part of the transaction.

    Many are handed over in steps.  The connection holds back its next requests until the coordinator has them.
    """
    count = sum([len(topic.partitions) for topic in request.topics])
    return inline_if_short(_commit(services, context, request, count), count)


def _commit(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest, count: int
) -> Generator[None, None, Awaitable[TxnOffsetCommitResponse]]:
    offsets = yield from _offsets(services, request)
    replied: Deferred[CommitResult] = Deferred()
    error = _verified(services, request) if offsets else ErrorCode.NONE
    if error or not offsets:
        replied.callback(dict.fromkeys(offsets, error))
    else:
        commit = TransactionalCommit(
            request.group_id,
            request.generation_id,
            request.member_id,
            offsets,
            request.group_instance_id,
            request.producer_id,
            request.producer_epoch,
        )
        services.groups.commit_in_transaction(commit, replied.callback, services.runtime.now_ms())
    return _answer(services, context, request, count, replied)


async def _answer(
    services: Services,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    count: int,
    replied: Deferred[CommitResult],
) -> TxnOffsetCommitResponse:
    return await services.runtime.slices.finish(_response(await replied, request, context), count)


def _offsets(
    services: Services, request: TxnOffsetCommitRequest
) -> Generator[None, None, dict[TopicPartition, CommittedOffset]]:
    now_ms = services.runtime.now_ms()
    offsets = {}
    for topic in request.topics:
        known = services.metadata.topics.get(topic.name)
        for number, partition in enumerate(topic.partitions):
            if number % STEP_ITEMS == 0:
                yield
            if known is not None and partition.partition_index in known.partitions:
                offsets[topic.name, partition.partition_index] = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                    now_ms,
                )
    return offsets


def _verified(services: Services, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Whether the offsets' partition is part of the producer's open transaction, if that is to be made sure of."""
    if not services.config.boolean("transaction.partition.verification.enable"):
        return ErrorCode.NONE
    key = OFFSETS_TOPIC, services.groups.partition_for(request.group_id)
    errors = services.transactions.verify(request.transactional_id, request.producer_id, request.producer_epoch, [key])
    return errors[key]


def _response(
    result: CommitResult, request: TxnOffsetCommitRequest, context: RequestContext
) -> Generator[None, None, TxnOffsetCommitResponse]:
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        answered = TxnOffsetCommitResponseTopic(topic.name, [])
        response.topics.append(answered)
        for number, partition in enumerate(topic.partitions):
            if number % STEP_ITEMS == 0:
                yield
            index = partition.partition_index
            error = result.get((topic.name, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            code = _error_for(error, context.api_version)
            answered.partitions.append(TxnOffsetCommitResponsePartition(index, code))
    return response


def _error_for(error: ErrorCode, version: int) -> ErrorCode:
    """The error as this version of the request knows it."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _FIRST_WITH_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
