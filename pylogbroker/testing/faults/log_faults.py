"""Faults of logs: records that are gone, a truncation, full and failed disks; retention and compaction at once."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, Final

import attrs

from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.errors import ErrorCode, OffsetOutOfRange
from pylogbroker.testing.faults.cluster_faults import next_leader_epoch
from pylogbroker.testing.faults.fault import Action, Fault
from pylogbroker.testing.faults.fields import PARTITION, TOPIC
from pylogbroker.testing.faults.matching import Call, Criteria
from pylogbroker.testing.faults.names import api_key, unknown

AddAction = Callable[[Criteria, Action, int | None, bool], Fault]

_DISK_ERRORS: Final = {name: getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EIO", "EROFS")}


@attrs.define(eq=False, repr=False)
class LogFaults:
    """Methods for tests; any thread may call them."""

    _broker: Callable[[], Broker]
    _run: Callable[..., Any]
    _add: AddAction

    def delete_records(self, topic: str, partition: int = 0, *, before: int) -> None:
        """Move the log start up to an offset; raise OffsetOutOfRange beyond the end."""
        self._run(lambda: self._partition(topic, partition).delete_records_before(before))

    def truncate(self, topic: str, partition: int = 0, *, to: int) -> None:
        """Lose the records from an offset on, as in an unclean election: the next ones are of a new leader epoch."""
        self._run(self._truncate, topic, partition, to)

    def retain(self) -> None:
        """Apply retention to all logs."""
        self._run(lambda: self._broker().log_maintenance.expire())

    def compact(self, topic: str, partition: int = 0) -> None:
        """Compact a partition, with the records of its active segment."""
        self._run(lambda: self._broker().log_cleaner.clean_now(self._partition(topic, partition).log))

    def fail_appends(
        self,
        topic: str,
        partition: int | None = None,
        *,
        error: str = "ENOSPC",
        times: int | None = 1,
        must_fire: bool = False,
    ) -> Fault:
        """Let appends of producers fail by an error of the disk.

        After "ENOSPC" or "EDQUOT", the disk is full, and a retry may succeed. After another error, the log directory
        is offline until the broker's next start.
        """
        if error not in _DISK_ERRORS:
            raise unknown("error of disks", error, _DISK_ERRORS)
        topics = self._broker().metadata.topics
        if topic not in topics:
            raise unknown("topic", topic, topics)
        code = _DISK_ERRORS[error]
        criteria = Criteria.of(api_key("Produce"), topic=topic, partition=partition)

        def fail(call: Call) -> None:
            for keys in call.leaves():
                if criteria.selects(keys):
                    self._fail(keys[TOPIC], keys[PARTITION], OSError(code, os.strerror(code)))

        action = Action((ErrorCode.KAFKA_STORAGE_ERROR,), on_hit=fail)
        return self._add(criteria, action, times, must_fire)

    def _fail(self, topic: str, index: int, error: OSError) -> None:
        broker = self._broker()
        partition = broker.partitions.hosted.get((topic, index))
        if partition is not None:
            broker.partitions.request_failed(partition.log, partition.log.record_failure(error))

    async def _truncate(self, topic: str, index: int, to: int) -> None:
        broker, partition = self._broker(), self._partition(topic, index)
        found = partition.log
        if not found.log_start_offset <= to <= found.log_end_offset:
            raise OffsetOutOfRange(f"offset {to} is not within {found.log_start_offset} to {found.log_end_offset}")
        broker.partitions.resign((topic, index))
        for files in found.truncate_to(to):
            files.unlink()
        await next_leader_epoch(broker, topic, index)

    def _partition(self, topic: str, index: int) -> Partition:
        topics = self._broker().metadata.topics
        if topic not in topics:
            raise unknown("topic", topic, topics)
        return self._broker().partitions.find(topic, index)
