"""Runs of repeated produces with acks=all that wait for the replicas: one delayed operation for all of a form.

    event                                        what follows
    -------------------------------------------  ----------------------------------------------------------
    the high watermark has passed a run          its answers; NOT_ENOUGH_REPLICAS_AFTER_APPEND if too few
                                                 replicas are in sync by then
    the time of its requests is over             REQUEST_TIMED_OUT for batches above the high watermark
    another leader, or the partition is closed   its error for these batches, at once
    the connection is lost                       the same, but nothing is sent

A run is answered as a whole, in one place, when all its batches are decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol
from uuid import UUID

import attrs

from pylogbroker.broker.partitions.delayed_write import timed_out
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.repeated import AnswerPlace
from pylogbroker.broker.requests.batch_errors import BatchErrors
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.rejected_batches import ProducerBatch
from pylogbroker.broker.services import HasMetadata, HasNode, HasPartitions, HasRuntime
from pylogbroker.errors import KafkaError
from pylogbroker.records import AppendedEntry
from pylogbroker.wire import response_codec
from pylogbroker.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

WAITING_REQUESTS_MAX: Final = 1000
"""With more, the next requests take the usual path, which bounds them."""


class _Services(HasMetadata, HasPartitions, HasNode, HasRuntime, Protocol):
    """Services that this module uses."""


@attrs.define(eq=False, repr=False)
class _Run:
    """Requests in a row; the outcome of the first `decided` of them is known."""

    _waiting: WaitingRuns
    place: AnswerPlace
    correlation_ids: Sequence[int]
    batches: Sequence[AppendedEntry]
    answers: list[bytes]
    """Answers if nothing fails, or errors."""
    decided: int = attrs.field(default=0, init=False)

    @property
    def is_decided(self) -> bool:
        return self.decided == len(self.batches)

    def time_out(self) -> None:
        self._waiting.time_out_first()  # all runs have the same time

    def send(self) -> None:
        answers = self.answers
        self.place.encoded([answers[0] if len(answers) == 1 else b"".join(answers)])


@attrs.define(eq=False, repr=False)
class WaitingRuns:
    """Runs of one form, oldest first; a DelayedOperation while there are any."""

    _partition: Partition
    _topic_id: UUID
    _services: _Services
    context: RequestContext
    _timeout_seconds: float
    requests: int = attrs.field(default=0, init=False)
    _runs: list[_Run] = attrs.field(factory=list, init=False)

    def add(
        self,
        place: AnswerPlace,
        correlation_ids: Sequence[int],
        batches: Sequence[AppendedEntry],
        answers: list[bytes],
    ) -> None:
        """Answer a run in its place when the high watermark has passed it; its batches were appended."""
        run = _Run(self, place, correlation_ids, batches, answers)
        self._services.runtime.timeouts.add(self._timeout_seconds, run)
        self._runs.append(run)
        self.requests += len(answers)
        if len(self._runs) == 1:
            self._partition.purgatory.add(self, Mark.HIGH_WATERMARK, batches[0].last_offset + 1)

    def try_complete(self, size: int) -> bool:
        offset, error = self._partition.log.high_watermark, self._replication_error()
        count = 0
        for run in self._runs:
            end = run.decided
            while end < len(run.batches) and run.batches[end].last_offset < offset:
                end += 1
            self._decide(run, end, error)
            if not run.is_decided:
                break
            count += 1
        self._send_first(count)
        return not self._runs  # an answer may have let the connection go on, and add another run

    def fail(self, error: KafkaError) -> None:
        self._fail_first(len(self._runs), error)

    def time_out_first(self) -> None:
        """Fail the oldest run: its time is over."""
        self._fail_first(1, timed_out())

    def _fail_first(self, count: int, error: KafkaError) -> None:
        for run in self._runs[:count]:
            self._decide(run, len(run.batches), error)
        self._send_first(count)

    def _send_first(self, count: int) -> None:
        """Answer the first runs, which are decided."""
        timeouts = self._services.runtime.timeouts
        decided, self._runs = self._runs[:count], self._runs[count:]
        self.requests -= sum([len(run.answers) for run in decided])
        if not self._runs:
            self._partition.purgatory.remove(self, Mark.HIGH_WATERMARK)
        for run in decided:
            timeouts.remove(self._timeout_seconds, run)
            run.send()

    def _decide(self, run: _Run, end: int, error: KafkaError | None) -> None:
        """Let the requests before number `end` that are not decided get their answers, or an error."""
        if error is not None:
            for number in range(run.decided, end):
                run.answers[number] = self._error(run.correlation_ids[number], run.batches[number], error)
        run.decided = end

    def _replication_error(self) -> KafkaError | None:
        """Return the error for batches that the high watermark has passed, if too few replicas are in sync."""
        replication = self._partition.replication
        if replication is not None:
            try:
                replication.check_replicated()
            except KafkaError as error:
                return error
        return None

    def _error(self, correlation_id: int, batch: AppendedEntry, error: KafkaError) -> bytes:
        partition, context = self._partition, self.context
        answer = PartitionProduceResponse(partition.index)
        response = ProduceResponse([TopicProduceResponse(partition.topic, [answer], self._topic_id)])
        sent = ProducerBatch(batch.producer_id, batch.producer_epoch, batch.base_sequence)
        BatchErrors(self._services, context, response).reject(answer, partition.topic, partition, sent, error)
        chunks: list[Any] = response_codec(ProduceResponse.api_key, context.api_version).frame(correlation_id, response)
        return b"".join(chunks)
