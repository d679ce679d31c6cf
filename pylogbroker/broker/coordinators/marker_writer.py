"""Markers of transactions in partitions that this broker leads.

A marker in `__consumer_offsets` ends a transaction of offsets, so the groups of its partition get it too.

    the replicas of a partition                     error, after which the coordinator tries again
    ----------------------------------------------  ----------------------------------------------
    do not have the marker after `WAIT_MS`          REQUEST_TIMED_OUT
    have not followed since such an error           REQUEST_TIMED_OUT at once, and no append

Each transaction of transactions v2 has an epoch of its own, and its marker the next one. So a late marker differs from
that of the open transaction: it is rejected with INVALID_PRODUCER_EPOCH (KIP-1228). One that is repeated after a
timeout finds nothing open, and is appended again: only so does the coordinator hear that the replicas have it.

The markers for one broker share a request, so those of other transactions wait for a stalled partition, but only once.
In Apache Kafka they wait for `request.timeout.ms` again and again.
"""

from __future__ import annotations

from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.coordinators.partition_writer import PartitionWriter
from pylogbroker.broker.services import LogServices
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import GroupCoordinator
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC
from pylogbroker.records import end_marker
from pylogbroker.storage import ProducerStateEntry
from pylogbroker.transactions import MarkersCallback, TransactionMarker

log = Logger()
WAIT_MS: Final = 1_000
"""Time for the in-sync replicas to get a marker."""


@attrs.frozen(eq=False, repr=False)
class _Appends:
    """Appends of one marker; `done` is called once each has an error code."""

    _partitions: tuple[TopicPartition, ...]
    _done: MarkersCallback
    _errors: dict[TopicPartition, ErrorCode] = attrs.field(factory=dict, init=False)

    def ended(self, key: TopicPartition, error: ErrorCode, now_ms: int) -> None:
        if key not in self._errors:
            self._errors[key] = error
            if len(self._errors) == len(self._partitions):
                self._done(self._errors, now_ms)

    def fail(self, now_ms: int) -> None:
        """End those that have not ended yet."""
        for key in self._partitions:
            self.ended(key, ErrorCode.UNKNOWN_SERVER_ERROR, now_ms)


@attrs.frozen(eq=False, repr=False)
class MarkerWriter:
    """`writer` fails appends with REQUEST_TIMED_OUT after `WAIT_MS`."""

    _services: LogServices
    _writer: PartitionWriter
    _groups: GroupCoordinator
    _stalled: dict[TopicPartition, int] = attrs.field(factory=dict, init=False)
    """High watermarks of partitions when a marker timed out there."""

    def append(self, marker: TransactionMarker, done: MarkersCallback) -> None:
        """Append the marker to each of its partitions; call `done` after the last append, or an unexpected error."""
        if not marker.partitions:
            done({}, self._services.runtime.now_ms())
            return
        problem = "a marker of producer id {producer_id} was not appended everywhere: its coordinator tries again"
        run_in_background(log, self._append(marker, done), problem, producer_id=marker.producer_id)

    async def _append(self, marker: TransactionMarker, done: MarkersCallback) -> None:
        runtime = self._services.runtime
        appends = _Appends(marker.partitions, done)
        try:
            batch = end_marker(
                marker.committed,
                marker.coordinator_epoch,
                marker.producer_id,
                marker.producer_epoch,
                runtime.now_ms(),
            )
            async for key in runtime.slices.over(marker.partitions):
                self._append_to(key, marker, batch, appends)
        except Exception:
            appends.fail(runtime.now_ms())
            raise

    def _append_to(self, key: TopicPartition, marker: TransactionMarker, batch: bytes, appends: _Appends) -> None:
        def appended(error: ErrorCode, done_ms: int) -> None:
            if key[0] == OFFSETS_TOPIC and not error:
                self._groups.end_transaction(key[1], marker.producer_id, marker.committed)
            led = self._services.partitions.led.get(key)
            if led is not None and error is ErrorCode.REQUEST_TIMED_OUT:
                self._stalled[key] = led.log.high_watermark
            appends.ended(key, error, done_ms)

        if self._is_stalled(key):
            appends.ended(key, ErrorCode.REQUEST_TIMED_OUT, self._services.runtime.now_ms())
            return
        led = self._services.partitions.led.get(key)
        if led is not None and _is_late(marker, led.log.producers.get(marker.producer_id)):
            appends.ended(key, ErrorCode.INVALID_PRODUCER_EPOCH, self._services.runtime.now_ms())
            return
        self._writer.append(key, batch, appended)
        if led is not None:
            led.verifications.end_transaction(marker)

    def _is_stalled(self, key: TopicPartition) -> bool:
        stalled_at = self._stalled.get(key)
        if stalled_at is None:
            return False
        led = self._services.partitions.led.get(key)
        if led is not None and stalled_at == led.log.high_watermark < led.log.log_end_offset:
            return True
        del self._stalled[key]
        return False


def _is_late(marker: TransactionMarker, producer: ProducerStateEntry | None) -> bool:
    """Return whether a marker is of a transaction before the open one."""
    return producer is not None and producer.transaction_start >= 0 and marker.is_before(producer.epoch)
