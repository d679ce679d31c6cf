"""Faults of logs: records that are gone, a truncation, full and failed disks; retention and compaction at once."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.errors import ErrorCode, OffsetOutOfRange
from pylogbroker.testing.faults.cluster_faults import next_leader_epoch
from pylogbroker.testing.faults.criteria import Call, Criteria
from pylogbroker.testing.faults.fault import Action, Fault
from pylogbroker.testing.faults.fields import PARTITION, TOPIC
from pylogbroker.testing.faults.names import api_key, unknown

Brokers = Callable[[], Sequence[Broker]]
_AddAction = Callable[[Criteria, Action, int | None, bool], Fault]

_DISK_ERRORS: Final = {name: getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EIO", "EROFS")}


@attrs.define(eq=False, repr=False)
class LogFaults:
    """Methods for tests; any thread may call them. In a cluster they act on the partition's leader."""

    _brokers: Brokers
    _run: Callable[..., Any]
    _add: _AddAction
    _can_compact: bool = True

    def delete_records(self, topic: str, partition: int = 0, *, before: int) -> None:
        """Move the log start up to an offset; raise OffsetOutOfRange beyond the end."""
        self._run(lambda: self._led(topic, partition)[1].delete_records_before(before))

    def truncate(self, topic: str, partition: int = 0, *, to: int) -> None:
        """Lose the records from an offset on, as in an unclean election: the next ones are of a new leader epoch.

        Raise ValueError in a cluster: its controller decides about epochs, and followers keep the records.
        """
        self._run(self._truncate, topic, partition, to)

    def retain(self) -> None:
        """Apply retention to all logs, of a cluster to those of each broker."""
        self._run(self.apply_retention)

    def compact(self, topic: str, partition: int = 0) -> None:
        """Compact a partition, with the records of its active segment; all its replicas."""
        if not self._can_compact:
            raise ValueError("a broker in memory does not compact, since that takes a process: use testing.Broker")
        self._run(self._compact, topic, partition)

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
        check_topic(self._brokers(), topic)
        code = _DISK_ERRORS[error]
        criteria = Criteria.of(api_key("Produce"), topic=topic, partition=partition)

        def fail(call: Call) -> None:
            for keys in call.leaves():
                if criteria.selects(keys):
                    _fail(call, keys[TOPIC], keys[PARTITION], OSError(code, os.strerror(code)))

        action = Action((ErrorCode.KAFKA_STORAGE_ERROR,), on_hit=fail)
        return self._add(criteria, action, times, must_fire)

    async def apply_retention(self) -> None:
        """Do what `retain` does; await it on the brokers' thread."""
        for broker in self._brokers():
            await broker.log_maintenance.expire()

    async def _compact(self, topic: str, index: int) -> None:
        self._led(topic, index)
        for broker in self._brokers():
            replica = broker.partitions.hosted.get((topic, index))
            if replica is not None:
                await broker.log_cleaner.clean_now(replica.log)

    async def _truncate(self, topic: str, index: int, to: int) -> None:
        broker, partition = self._led(topic, index)
        if broker.config.in_cluster:
            raise ValueError(
                f"{topic}-{index} cannot be truncated in a cluster: its controller decides about leader epochs, "
                "and followers keep the records. Use one broker for this"
            )
        log = partition.log
        if not log.log_start_offset <= to <= log.log_end_offset:
            raise OffsetOutOfRange(f"offset {to} is not within {log.log_start_offset} to {log.log_end_offset}")
        broker.partitions.resign((topic, index))
        for files in log.truncate_to(to):
            files.unlink()
        await next_leader_epoch(broker, topic, index)

    def _led(self, topic: str, index: int) -> tuple[Broker, Partition]:
        """Return a partition and the broker that leads it."""
        brokers = self._brokers()
        check_topic(brokers, topic)
        leader = next((broker for broker in brokers if (topic, index) in broker.partitions.led), brokers[0])
        return leader, leader.partitions.find(topic, index)


def check_topic(brokers: Sequence[Broker], topic: str) -> None:
    """Raise ValueError for a topic that no broker knows."""
    topics = {name for broker in brokers for name in broker.metadata.topics}
    if topic not in topics:
        raise unknown("topic", topic, topics)


def _fail(call: Call, topic: str, index: int, error: OSError) -> None:
    """Let the disk fail under a partition of the broker that was asked."""
    partitions = call.services.partitions
    partition = partitions.hosted.get((topic, index))
    if partition is not None:
        partitions.request_failed(partition.log, partition.log.record_failure(error))
