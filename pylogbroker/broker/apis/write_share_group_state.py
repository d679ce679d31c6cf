"""WriteShareGroupState (85): change the states of a share group's partitions. Their leaders send it."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasShareStates
from pylogbroker.broker.share.state_requests import of_brokers, results_by_topic
from pylogbroker.errors import CorruptRecords, ErrorCode
from pylogbroker.groups.share.state_coordinator import StateWrite
from pylogbroker.groups.share.state_records import UNCHANGED, SharePartitionKey, from_schema
from pylogbroker.wire.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStatePartition,
    WriteStatePartitionResult,
    WriteStateResult,
)


@serves(
    WriteShareGroupStateRequest,
    access=[of_brokers(WriteShareGroupStateResponse, WriteStateResult, WriteStatePartitionResult)],
)
async def handle(
    services: HasShareStates, context: RequestContext, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    def write(key: SharePartitionKey, partition: WriteStatePartition) -> Deferred[ErrorCode]:
        change = _state_write(partition)
        return succeed(ErrorCode.INVALID_REQUEST) if change is None else services.share_states.write(key, change)

    return WriteShareGroupStateResponse(await results_by_topic(request, write, WriteStateResult, _answer))


def _state_write(partition: WriteStatePartition) -> StateWrite | None:
    """Return the change that a request makes, None if it is invalid."""
    if min(partition.state_epoch, partition.leader_epoch) < 0:
        return None
    if min(partition.start_offset, partition.delivery_complete_count) < UNCHANGED:
        return None
    try:
        batches = from_schema(partition.state_batches)
    except CorruptRecords:
        return None
    return StateWrite(
        partition.state_epoch,
        partition.leader_epoch,
        partition.start_offset,
        partition.delivery_complete_count,
        batches,
    )


def _answer(index: int, error: Any) -> WriteStatePartitionResult:
    return WriteStatePartitionResult(index, error, error.meaning if error else None)
