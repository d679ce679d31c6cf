"""Markers of transactions in partitions that this broker leads.

A marker in `__consumer_offsets` ends a transaction of offsets, so the groups of its partition get it too.
"""

from __future__ import annotations

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
from pylogbroker.transactions import MarkersCallback, TransactionMarker

log = Logger()


@attrs.frozen(eq=False)
class MarkerWriter:
    _services: LogServices
    _writer: PartitionWriter
    _groups: GroupCoordinator

    def append(self, marker: TransactionMarker, done: MarkersCallback) -> None:
        """Append the marker to each of its partitions; call `done` after the last append."""
        problem = "a marker of producer id {producer_id} was not appended everywhere: its transaction stays open"
        run_in_background(log, self._append(marker, done), problem, producer_id=marker.producer_id)

    async def _append(self, marker: TransactionMarker, done: MarkersCallback) -> None:
        now_ms = self._services.runtime.now_ms()
        if not marker.partitions:
            done({}, now_ms)
        producer_id, committed = marker.producer_id, marker.committed
        batch = end_marker(committed, marker.coordinator_epoch, producer_id, marker.producer_epoch, now_ms)
        errors: dict[TopicPartition, ErrorCode] = {}

        def append(key: TopicPartition) -> None:
            def appended(error: ErrorCode, done_ms: int) -> None:
                if key[0] == OFFSETS_TOPIC and not error:
                    self._groups.end_transaction(key[1], producer_id, committed)
                errors[key] = error
                if len(errors) == len(marker.partitions):
                    done(errors, done_ms)

            self._writer.append(key, batch, appended)
            led = self._services.partitions.led.get(key)
            if led is not None:
                led.verifications.end_transaction(producer_id)

        async for key in self._services.runtime.slices.over(marker.partitions):
            append(key)
