"""DescribeLogDirs (35): the logs in each directory, and their sizes.

A log that is being moved is also in the directory to which it goes, marked as the future one, with what it lacks.

A failed directory has KAFKA_STORAGE_ERROR and no logs; a full one has no usable bytes. Null topics ask for all; unknown
topics and partitions are left out.

Another broker of ours may ask for counts of traffic, too, which its web UI shows.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Protocol

from pylogbroker import __version__
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasLogMoves, HasLogs, HasPartitions, HasRuntime
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import mapped, over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.storage import Log, LogDirectory
from pylogbroker.wire.messages.describe_log_dirs import (
    BrokerTraffic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


class _Services(HasRuntime, HasPartitions, HasLogs, HasLogMoves, Protocol):
    """Services that this API uses."""


@serves(DescribeLogDirsRequest, access=[on_cluster(AclOperation.DESCRIBE)], is_read=True)
async def handle(
    services: _Services, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    by_directory = await _by_directory(services, await _asked(services, request))
    response = DescribeLogDirsResponse(
        results=[
            await _describe(services, directory, by_directory.get(directory.path, {}))
            for directory in services.logs.directories
        ]
    )
    if request.with_traffic:
        response.traffic = await _traffic(services)
    return response


async def _traffic(services: _Services) -> BrokerTraffic:
    """Return the sums of all topics, also of those that are gone."""
    traffic = services.partitions.traffic
    messages_in = bytes_in = bytes_out = 0
    async for counts in over((traffic.of_others, *traffic.topics.values())):
        messages_in, bytes_in = messages_in + counts.messages_in, bytes_in + counts.bytes_in
        bytes_out += counts.bytes_out
    return BrokerTraffic(messages_in, bytes_in, bytes_out, f"pylogbroker {__version__}")


async def _asked(services: _Services, request: DescribeLogDirsRequest) -> set[tuple[str, int]] | None:
    if request.topics is None:
        return None
    named = ((topic.topic, partition) for topic in request.topics for partition in topic.partitions)
    return {key async for key in over(named)}


async def _by_directory(
    services: _Services, partitions: set[tuple[str, int]] | None
) -> dict[str, dict[str, list[Log]]]:
    by_directory: dict[str, dict[str, list[Log]]] = {}
    if partitions is not None and not partitions:
        return by_directory  # somebody asks for the disks alone
    copies = () if services.log_moves.copy is None else (services.log_moves.copy,)
    async for log in over((*services.logs.logs.values(), *copies)):
        if partitions is None or (log.topic, log.partition) in partitions:
            by_directory.setdefault(os.path.dirname(log.path), {}).setdefault(log.topic, []).append(log)
    return by_directory


async def _describe(
    services: _Services, directory: LogDirectory, topics: dict[str, list[Log]]
) -> DescribeLogDirsResult:
    if directory.failure:
        return _failed(directory)
    try:
        total, usable = await services.runtime.in_thread(directory.space)
    except OSError:
        return _failed(directory)
    if directory.path in services.partitions.full_directories.reasons:
        usable = 0  # a quota may be the cause, or what is left is too little
    described = [
        DescribeLogDirsTopic(topic, await mapped(partial(_partition, services), topics[topic]))
        async for topic in over(sorted(topics))
    ]
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=described,
        total_bytes=total,
        usable_bytes=usable,
    )


def _failed(directory: LogDirectory) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)


def _partition(services: _Services, log: Log) -> DescribeLogDirsPartition:
    """Describe a log, or the copy of one that is being moved."""
    is_copy = log is services.log_moves.copy
    moved = services.logs.logs.get((log.topic, log.partition)) if is_copy else None
    end = log.high_watermark if moved is None else moved.log_end_offset
    return DescribeLogDirsPartition(log.partition, log.size, max(0, end - log.log_end_offset), is_copy)
