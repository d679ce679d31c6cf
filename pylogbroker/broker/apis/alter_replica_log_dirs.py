"""AlterReplicaLogDirs (34): moves replicas to other log directories of this broker.

| the directory                | answer                                                          |
|------------------------------|-----------------------------------------------------------------|
| is not one of `log.dirs`     | LOG_DIR_NOT_FOUND                                               |
| failed, or the replica's did | KAFKA_STORAGE_ERROR                                             |
| works; there is no replica   | REPLICA_NOT_AVAILABLE; a replica that comes later is made there |
| works                        | no error: the replica is moved, as DescribeLogDirs shows        |
"""

from __future__ import annotations

import os
from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rejections import reject_partitions
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasLogMoves, HasMetadata
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

_reject_topic = reject_partitions(AlterReplicaLogDirTopicResult, AlterReplicaLogDirPartitionResult)


class _Services(HasMetadata, HasLogMoves, Protocol):
    """Services that this API uses."""


async def _reject(
    context: RequestContext, request: AlterReplicaLogDirsRequest, code: ErrorCode
) -> AlterReplicaLogDirsResponse:
    topics = (topic for home in request.dirs for topic in home.topics)
    return AlterReplicaLogDirsResponse(results=[await _reject_topic(topic, code) async for topic in over(topics)])


@serves(AlterReplicaLogDirsRequest, access=[on_cluster(AclOperation.ALTER, _reject)])
async def handle(
    services: _Services, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    moves = (
        (home.path, topic.name, index) for home in request.dirs for topic in home.topics for index in topic.partitions
    )
    async for path, topic, index in over(moves):
        error = _move(services, path, topic, index)
        results.setdefault(topic, []).append(AlterReplicaLogDirPartitionResult(index, error))
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(*entry) async for entry in over(results.items())]
    )


def _move(services: _Services, path: str, topic: str, index: int) -> ErrorCode:
    try:
        image = services.metadata.require_topic(topic)
        if index not in image.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        services.log_moves.move((topic, index), os.path.abspath(path))
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
