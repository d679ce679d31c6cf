"""ReadShareGroupState (84): the states of a share group's partitions, for their new leader. It fences earlier ones."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasShareStates
from pylogbroker.broker.share.state_requests import of_brokers, results_by_topic
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.groups.share.stored_state import StoredState
from pylogbroker.wire.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateBatch,
    ReadStatePartition,
    ReadStatePartitionResult,
    ReadStateResult,
)


@serves(
    ReadShareGroupStateRequest,
    access=[of_brokers(ReadShareGroupStateResponse, ReadStateResult, ReadStatePartitionResult)],
)
async def handle(
    services: HasShareStates, context: RequestContext, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    def read(key: SharePartitionKey, partition: ReadStatePartition) -> Deferred[StoredState | ErrorCode]:
        if partition.leader_epoch < 0:
            return succeed(ErrorCode.INVALID_REQUEST)
        return services.share_states.read(key, partition.leader_epoch)

    return ReadShareGroupStateResponse(await results_by_topic(request, read, ReadStateResult, _answer))


def _answer(index: int, state: StoredState | ErrorCode) -> ReadStatePartitionResult:
    if isinstance(state, ErrorCode):
        return ReadStatePartitionResult(index, state, state.meaning)
    batches = [ReadStateBatch(batch.first, batch.last, batch.state, batch.delivery_count) for batch in state.batches]
    return ReadStatePartitionResult(
        index, state_epoch=state.state_epoch, start_offset=state.start_offset, state_batches=batches
    )
