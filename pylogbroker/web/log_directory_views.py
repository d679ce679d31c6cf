"""Log directories of all brokers, and the logs in one of them with their sizes: each broker is asked for its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypedDict

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import code_of, raise_for
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.parameters import ROWS_MAX, Count, Index, Start
from pylogbroker.web.responsible_brokers import ask_all
from pylogbroker.web.rows import RowRange, slice_rows
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)


class LogDirectoryRow(TypedDict):
    broker: int
    path: str
    failure: Annotated[str, "empty if the directory is online"]
    logs: int
    log_bytes: int
    total_bytes: int | None
    usable_bytes: int | None


class LogRow(TypedDict):
    topic: str
    partition: int
    bytes: int
    is_future: bool


class LogDirectoryDetails(LogDirectoryRow, RowRange):
    details: list[LogRow]


async def log_directories(visitor: Visitor, with_logs: bool = True) -> tuple[list[LogDirectoryRow], list[int]]:
    """Return directories by broker, and the brokers that do not answer; without logs, disks alone cost nothing."""
    answers = await ask_all(visitor, DescribeLogDirsRequest(None if with_logs else []))
    rows = [
        await _row(visitor, broker_id, directory)
        for broker_id, answer in answers.items()
        if answer is not None
        for directory in answer.results
    ]
    return rows, [broker_id for broker_id, answer in answers.items() if answer is None]


async def _row(visitor: Visitor, broker_id: int, directory: DescribeLogDirsResult) -> LogDirectoryRow:
    over = visitor.services.runtime.slices.over
    sizes = [partition.partition_size async for _, partition in over(_logs(directory))]
    total, usable = directory.total_bytes, directory.usable_bytes
    is_known = 0 <= usable <= total
    return {
        "broker": broker_id,
        "path": directory.log_dir,
        "failure": _failure(visitor, broker_id, directory),
        "logs": len(sizes),
        "log_bytes": sum(sizes),
        "total_bytes": total if is_known else None,
        "usable_bytes": usable if is_known else None,
    }


def _failure(visitor: Visitor, broker_id: int, directory: DescribeLogDirsResult) -> str:
    """Return why a directory is offline: other brokers say only that it is."""
    if broker_id == visitor.services.node.id:
        for local in visitor.services.logs.directories:
            if local.path == directory.log_dir and local.failure:
                return local.failure
    return code_of(directory.error_code).meaning if directory.error_code else ""


def _logs(directory: DescribeLogDirsResult) -> Iterator[tuple[str, DescribeLogDirsPartition]]:
    return ((topic.name, partition) for topic in directory.topics for partition in topic.partitions)


async def log_directory(
    visitor: Visitor, broker: Index, path: str, start: Start = 0, count: Count = ROWS_MAX
) -> LogDirectoryDetails:
    """Return the logs in a directory of a broker, the largest first, from the `start`th on."""
    row, logs = await directory_with_logs(visitor, broker, path)
    values, shown = slice_rows(start, count, logs)
    return {**row, **values, "details": [*shown]}


async def directory_with_logs(visitor: Visitor, broker: int, path: str) -> tuple[LogDirectoryRow, list[LogRow]]:
    """Return a directory of a broker, and its logs, the largest first; raise KafkaError."""
    visitor.check(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    services, slices = visitor.services, visitor.services.runtime.slices
    if broker not in (services.node.id, *services.metadata.image.brokers):
        raise KafkaError(f"there is no broker {broker} now", ErrorCode.RESOURCE_NOT_FOUND)
    answer = await visitor.ask(DescribeLogDirsRequest(None), broker)
    raise_for(answer.error_code)
    directory = next((result for result in answer.results if result.log_dir == path), None)
    if directory is None:
        raise KafkaError(f"broker {broker} has no log directory {path!r}", ErrorCode.RESOURCE_NOT_FOUND)
    rows = [_log_row(topic, partition) async for topic, partition in slices.over(_logs(directory))]
    ordered = await slices.in_order(rows, key=lambda row: (-row["bytes"], row["topic"], row["partition"]))
    return await _row(visitor, broker, directory), ordered


def _log_row(topic: str, partition: DescribeLogDirsPartition) -> LogRow:
    return {
        "topic": topic,
        "partition": partition.partition_index,
        "bytes": partition.partition_size,
        "is_future": partition.is_future_key,
    }
