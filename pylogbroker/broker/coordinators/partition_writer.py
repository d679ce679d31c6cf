"""What coordinators write into partitions: records of their own, and markers of transactions.

built in a worker thread, if it is long --> appended

appended --no sync asked for--> done
    |
    +--sync asked for--> synced, together with others --> done
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.partitions.delayed_write import ACKS_ALL, DelayedWrite
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.services import LogServices
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.records import Buffer
from pylogbroker.storage import Appended, Origin
from pylogbroker.wire import EncodingError

AppendCallback = Callable[[ErrorCode, int], None]
"""Called once per append with how it went and the time in ms."""

log = Logger()


def append(
    services: LogServices,
    key: tuple[str, int],
    batch: Buffer | Callable[[], Buffer],
    done: AppendCallback,
    on_disk: bool = False,
) -> None:
    """Append a batch to the partition of that topic and index; where the flush policy or the caller asks for it, `done`
    is called when it is `on_disk`. Errors are reported to `done`.

    A batch that takes long to build is given as a function, which is called in a worker thread. Later appends to the
    partition wait for it.
    """
    now_ms = services.runtime.now_ms()
    found: Partition | None = None
    try:
        found = services.partitions.find(*key)
        appended = _append_now(found, batch, now_ms)
    except KafkaError as error:
        _failed(services, found, error, done)
        return
    if appended is None:
        later = ensureDeferred(_append_in_line(services, found, batch, done, on_disk))
        later.addErrback(_report)
    else:
        _appended(services, found, appended, done, on_disk)


def _append_now(partition: Partition, batch: Buffer | Callable[[], Buffer], now_ms: int) -> Appended | None:
    """Append what need not wait; None for what must.

    A marker does not wait for records that a client sent before it: those are refused if they come late. In an internal
    topic, where coordinators alone write, appends keep the order of the calls.
    """
    if callable(batch):
        return None
    if partition.is_internal:
        return partition.append_now(batch, now_ms, origin=Origin.COORDINATOR)
    return partition.append(batch, now_ms, Origin.COORDINATOR)


async def _append_in_line(
    services: LogServices,
    partition: Partition,
    batch: Buffer | Callable[[], Buffer],
    done: AppendCallback,
    on_disk: bool,
) -> None:
    try:
        appended = await partition.append_queued(
            batch, services.runtime.now_ms(), services.runtime.in_thread, origin=Origin.COORDINATOR
        )
    except EncodingError as error:
        _failed(services, partition, KafkaError(str(error), ErrorCode.MESSAGE_TOO_LARGE), done)
    except KafkaError as error:
        _failed(services, partition, error, done)
    except Exception:
        done(ErrorCode.UNKNOWN_SERVER_ERROR, services.runtime.now_ms())
        raise
    else:
        _appended(services, partition, appended, done, on_disk)


def _failed(services: LogServices, partition: Partition | None, error: KafkaError, done: AppendCallback) -> None:
    if partition is not None and isinstance(error, StorageFailure):
        services.partitions.request_failed(partition.log, error)
    done(error.code, services.runtime.now_ms())


def _appended(services: LogServices, found: Partition, appended: Appended, done: AppendCallback, on_disk: bool) -> None:
    if not on_disk and found.log.high_watermark > appended.last_offset:
        done(ErrorCode.NONE, services.runtime.now_ms())
    else:
        ensureDeferred(_replicated(services, found, appended, on_disk)).addCallback(
            lambda error: done(error, services.runtime.now_ms())
        ).addErrback(_report)


async def _replicated(services: LogServices, found: Partition, appended: Appended, on_disk: bool) -> ErrorCode:
    """Wait until the high watermark, and the disk if that is asked for, has the records; return the error."""
    errors: list[KafkaError] = []
    delayed = DelayedWrite(services.runtime.clock)
    delayed.add(found, appended.last_offset + 1, ACKS_ALL, errors.append)
    await delayed.wait()
    if errors:
        return errors[0].code
    try:
        if on_disk and found.log.recovery_point <= appended.last_offset:
            await services.partitions.sync(found.log)
    except KafkaError as error:
        return error.code
    except Exception:
        log.failure("a sync of {path} failed", path=found.log.path)
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def _report(failure: Failure) -> None:
    log.failure("an answer of a coordinator failed", failure)
