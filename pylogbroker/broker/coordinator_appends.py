"""What coordinators write into partitions: records of their own, and markers of transactions.

appended --no sync asked for--> done
    |
    +--sync asked for--> synced, together with others --> done
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.partition import Partition
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.records import Buffer
from pylogbroker.storage import Origin

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker

Stored = Callable[[ErrorCode, int], None]
"""Called once per append with how it went and the time in ms."""

log = Logger()


def append(broker: Broker, key: tuple[str, int], batch: Buffer, done: Stored, on_disk: bool = False) -> None:
    """Append a batch to the partition of that topic and index; where the flush policy or the caller asks for it, `done`
    is called when it is `on_disk`. Errors are told to `done`."""
    now_ms = broker.now_ms()
    found: Partition | None = None
    try:
        found = broker.find(*key)
        appended = found.append(batch, now_ms, Origin.COORDINATOR)
    except KafkaError as error:
        if found is not None and isinstance(error, StorageFailure):
            broker.request_failed(found.log, error)
        done(error.code, now_ms)
        return
    if not (appended.must_sync or on_disk):
        done(ErrorCode.NONE, now_ms)
        return
    synced: Deferred[None] = broker.group_commit.sync(found.log)
    synced.addBoth(_synced, broker, found, appended.must_sync, done).addErrback(_report)


def _synced(result: Failure | None, broker: Broker, partition: Partition, is_hidden: bool, done: Stored) -> None:
    if is_hidden:
        settle = partition.sync_failed if isinstance(result, Failure) else partition.synced
        settle()
    if isinstance(result, Failure):
        if isinstance(result.value, StorageFailure):
            broker.request_failed(partition.log, result.value)
        done(_code_of(result), broker.now_ms())
    else:
        done(ErrorCode.NONE, broker.now_ms())


def _code_of(failure: Failure) -> ErrorCode:
    error = failure.value
    return error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR


def _report(failure: Failure) -> None:
    log.failure("an answer of a coordinator failed", failure)
