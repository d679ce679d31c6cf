"""Errors of produced batches: in the answer, in the counters, and for later batches of the same connection."""

from __future__ import annotations

from typing import Final, Protocol

import attrs

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.current_leaders import find_leader
from pylogbroker.broker.requests.rejected_batches import ProducerBatch, RejectedBatches
from pylogbroker.broker.services import HasMetadata, HasNode, HasPartitions
from pylogbroker.errors import ErrorCode, InvalidRecords, KafkaError, StorageFailure
from pylogbroker.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)

_FIRST_WITH_LEADERS: Final = 10
_RECORD_ERRORS_MAX: Final = 1000
"""Of all partitions of a request."""


class _Services(HasMetadata, HasPartitions, HasNode, Protocol):
    """Services that this module uses."""


@attrs.define(eq=False, repr=False)
class BatchErrors:
    """Errors of the batches of one request."""

    _services: _Services
    _context: RequestContext
    _response: ProduceResponse
    _record_errors_left: int = attrs.field(default=_RECORD_ERRORS_MAX, init=False)

    def reject(
        self,
        answer: PartitionProduceResponse,
        topic: str,
        partition: Partition | None,
        batch: ProducerBatch,
        error: KafkaError,
    ) -> None:
        """Fail a batch, and perhaps later ones of the connection with it."""
        self.note(topic, answer.index, partition, batch, error)
        self._fail(answer, topic, partition, error)

    def note(
        self, topic: str, index: int, partition: Partition | None, batch: ProducerBatch, error: KafkaError
    ) -> None:
        """Let later batches of the connection get the error."""
        caller = self._context.caller
        if not caller.is_gone:
            if caller.rejected_batches is None:
                caller.rejected_batches = RejectedBatches(caller.unanswered)
            caller.rejected_batches.note(topic, index, batch, error, partition)

    def _fail(
        self, answer: PartitionProduceResponse, topic: str, partition: Partition | None, error: KafkaError
    ) -> None:
        traffic = self._services.partitions.traffic.of(topic)
        traffic.append_errors[error.code] += 1
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and self._context.api_version >= _FIRST_WITH_LEADERS:
            self._name_leader(answer, topic)
        answer.error_code, answer.error_message = error.code, error.detail
        answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if isinstance(error, InvalidRecords):
            if error.reason is not None:
                traffic.rejections[error.reason] += error.rejected
            named = error.record_errors[: self._record_errors_left]
            self._record_errors_left -= len(named)
            answer.record_errors = [BatchIndexAndErrorMessage(at, message) for at, message in named]
            if error.record_errors and partition is not None:
                self._services.partitions.log_rejected_records(partition, error)
        if isinstance(error, StorageFailure) and partition is not None:
            self._services.partitions.request_failed(partition.log, error)

    def _name_leader(self, answer: PartitionProduceResponse, topic: str) -> None:
        leader = find_leader(self._services, self._context, topic, answer.index)
        if leader is None:
            return
        answer.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
        address, named = leader.address, self._response.node_endpoints
        if address is not None and all(endpoint.node_id != address.id for endpoint in named):
            named.append(NodeEndpoint(address.id, address.host, address.port, address.rack))
