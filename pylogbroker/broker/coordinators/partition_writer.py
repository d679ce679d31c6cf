"""Appends of coordinators to partitions: their records, and markers of transactions.

built in a worker thread, if it is long --> appended --> below the high watermark --> done
                                                                   |
                                                                   +--sync needed--> synced --> done
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.partitions.delayed_write import ACKS_ALL, DelayedWrite
from pylogbroker.broker.partitions.partition import Check, Partition
from pylogbroker.broker.services import LogServices
from pylogbroker.coordinators import AppendCallback, TopicPartition
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.records import Buffer
from pylogbroker.storage import Appended, Origin
from pylogbroker.wire import EncodingError

Batch = Buffer | Callable[[], Buffer]
"""A record batch, or a function that builds it in a worker thread."""

log = Logger()
_CALLBACK_FAILED: Final = "the callback of a coordinator's append failed"


@attrs.frozen
class PartitionWriter:
    """Fails appends with REQUEST_TIMED_OUT that the in-sync replicas do not have after `timeout_ms`, if given."""

    _services: LogServices
    _timeout_ms: int | None = None

    def append(self, key: TopicPartition, batch: Batch, done: AppendCallback, on_disk: bool = False) -> None:
        """Append a batch; call `done` with an error, or when it is below the high watermark, and with `on_disk` synced.

        Raise nothing: an unexpected error is logged, and UNKNOWN_SERVER_ERROR for `done`. Later appends wait for a
        batch that a worker thread builds.
        """
        partition: Partition | None = None
        try:
            partition = self._services.partitions.find(*key)
            partition.check_enough_replicas()
            appended = self._append_now(partition, batch)
        except KafkaError as error:
            self._failed(partition, error, done)
            return
        except Exception:
            log.failure("an append to {topic}-{index} failed", topic=key[0], index=key[1])
            done(ErrorCode.UNKNOWN_SERVER_ERROR, self._services.runtime.now_ms())
            return
        if appended is None:
            run_in_background(log, self._append_queued(partition, batch, done, on_disk), _CALLBACK_FAILED)
        else:
            self._appended(partition, appended, done, on_disk)

    def append_unreplicated(self, key: TopicPartition, batch: Batch) -> None:
        """Append a batch as with acks=0: also while too few replicas are in sync. A failure is logged."""
        problem = "deletions in {topic}-{index} were not written"
        run_in_background(log, self._append_unreplicated(key, batch), problem, topic=key[0], index=key[1])

    async def _append_unreplicated(self, key: TopicPartition, batch: Batch) -> None:
        partition: Partition | None = None
        try:
            partition = self._services.partitions.find(*key)
            if self._append_now(partition, batch) is None:
                await self._append_built(partition, batch)
        except KafkaError as error:
            self._note_failure(partition, error)
            if self._services.runtime.may_log(f"deletions in {key[0]}"):
                log.warn(
                    "{topic}-{index}: a deletion of offsets was not written, they come back with the next start or"
                    " election; delete them again then: {why}",
                    topic=key[0],
                    index=key[1],
                    why=error,
                )

    def _append_now(self, partition: Partition, batch: Batch) -> Appended | None:
        """Append, or return None if the batch has to wait.

        Markers do not wait for earlier records of clients: late records are rejected. In internal topics, which only
        coordinators write, appends keep the order of the calls.
        """
        if callable(batch):
            return None
        now_ms = self._services.runtime.now_ms()
        if partition.is_internal:
            return partition.append_now(batch, now_ms, origin=Origin.COORDINATOR)
        return partition.append(batch, now_ms, Origin.COORDINATOR)

    async def _append_queued(self, partition: Partition, batch: Batch, done: AppendCallback, on_disk: bool) -> None:
        try:
            appended = await self._append_built(partition, batch, partition.check_enough_replicas)
        except KafkaError as error:
            self._failed(partition, error, done)
        except Exception:
            done(ErrorCode.UNKNOWN_SERVER_ERROR, self._services.runtime.now_ms())
            raise
        else:
            self._appended(partition, appended, done, on_disk)

    async def _append_built(self, partition: Partition, batch: Batch, check: Check | None = None) -> Appended:
        runtime = self._services.runtime
        try:
            return await partition.append_queued(batch, runtime.now_ms(), runtime.in_thread, check, Origin.COORDINATOR)
        except EncodingError as error:
            raise KafkaError(str(error), ErrorCode.MESSAGE_TOO_LARGE) from error

    def _failed(self, partition: Partition | None, error: KafkaError, done: AppendCallback) -> None:
        self._note_failure(partition, error)
        done(error.code, self._services.runtime.now_ms())

    def _note_failure(self, partition: Partition | None, error: KafkaError) -> None:
        if partition is not None and isinstance(error, StorageFailure):
            self._services.partitions.request_failed(partition.log, error)

    def _appended(self, partition: Partition, appended: Appended, done: AppendCallback, on_disk: bool) -> None:
        runtime = self._services.runtime
        if not on_disk and partition.log.high_watermark > appended.last_offset:
            done(ErrorCode.NONE, runtime.now_ms())
        else:
            run_in_background(log, self._finish(partition, appended, done, on_disk), _CALLBACK_FAILED)

    async def _finish(self, partition: Partition, appended: Appended, done: AppendCallback, on_disk: bool) -> None:
        done(await self._replicated(partition, appended, on_disk), self._services.runtime.now_ms())

    async def _replicated(self, partition: Partition, appended: Appended, on_disk: bool) -> ErrorCode:
        errors: list[KafkaError] = []
        delayed = DelayedWrite(self._services.runtime.clock)
        delayed.add(partition, appended.last_offset + 1, ACKS_ALL, errors.append)
        await delayed.wait(self._timeout_ms)
        if errors:
            return errors[0].code
        try:
            if on_disk and partition.log.recovery_point <= appended.last_offset:
                await self._services.partitions.sync(partition.log)
        except KafkaError as error:
            return error.code
        except Exception:
            log.failure("a sync of {path} failed", path=partition.log.path)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE
