"""Truncation detection after a change of leader (KIP-320).

An unclean leader may reuse offsets already read. So at a newer leader epoch, the consumer asks the leader where the
last batch's epoch ends. Fetching waits for the answer:

    at or after our position          everything read is in the log: fetching continues
    before our position               the log was truncated there; later messages are new
    no such epoch                     the position is out of range
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.errors import is_retriable
from pylogbroker.errors import PylogbrokerError
from pylogbroker.rpc.answer_rows import sole_row
from pylogbroker.rpc.errors import raise_for
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = Logger()
_CONSUMER: Final = -1


@attrs.define(eq=False, repr=False)
class TruncationChecks:
    """`retry` looks for the leader again, `settled` resumes fetching."""

    _cluster: Cluster
    _on_truncated: Callable[[FetchBuffer, int], None]
    _on_out_of_range: Callable[[FetchBuffer], None]
    _retry: Callable[[FetchBuffer], None]
    _settled: Callable[[FetchBuffer], None]
    _asking: dict[FetchBuffer, Deferred[None]] = attrs.field(factory=dict)

    def must_wait(self, buffer: FetchBuffer, node: int, epoch: int) -> bool:
        """Start a check if needed; return whether fetching must wait."""
        if buffer in self._asking:
            return True
        if buffer.epoch < 0 or epoch <= buffer.checked_epoch:
            return False
        problem = "whether {topic}-{partition} was truncated is not known"
        settling = self._settle(buffer, node, epoch)
        asking = run_in_background(log, settling, problem, topic=buffer.topic, partition=buffer.partition)
        if not asking.called:
            self._asking[buffer] = asking
        return True

    def close(self) -> None:
        for asking in list(self._asking.values()):
            asking.cancel()

    async def _settle(self, buffer: FetchBuffer, node: int, epoch: int) -> None:
        try:
            await self._check_payload(buffer, node, epoch)
        except CancelledError:
            pass
        finally:
            self._asking.pop(buffer, None)
            self._settled(buffer)

    async def _check_payload(self, buffer: FetchBuffer, node: int, epoch: int) -> None:
        begun, position = buffer.round, buffer.position
        try:
            end = await self._end_of_epoch(buffer, node, epoch)
        except PylogbrokerError as error:
            if is_retriable(error):
                self._retry(buffer)
                return
            end = position  # the broker lacks the check
        if buffer.closed or buffer.round != begun or buffer.position != position:
            return
        buffer.checked_epoch = epoch
        if end < 0:
            self._on_out_of_range(buffer)
        elif end < position:
            self._on_truncated(buffer, end)

    async def _end_of_epoch(self, buffer: FetchBuffer, node: int, epoch: int) -> int:
        row = OffsetForLeaderPartition(buffer.partition, current_leader_epoch=epoch, leader_epoch=buffer.epoch)
        request = OffsetForLeaderEpochRequest(_CONSUMER, [OffsetForLeaderTopic(buffer.topic, [row])])
        response: OffsetForLeaderEpochResponse = await self._cluster.send(node, request)
        answer = sole_row(response, "topics.partitions", node, partition=buffer.partition)
        raise_for(answer.error_code)
        return int(answer.end_offset)
