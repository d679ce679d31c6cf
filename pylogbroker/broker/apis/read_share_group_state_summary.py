"""ReadShareGroupStateSummary (87): where the partitions of a share group start, for the group coordinator."""

from __future__ import annotations

from twisted.internet.defer import succeed

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasShareStates
from pylogbroker.broker.share.state_requests import of_brokers, results_by_topic
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.stored_state import StoredState
from pylogbroker.wire.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryPartitionResult,
    ReadStateSummaryResult,
)


@serves(
    ReadShareGroupStateSummaryRequest,
    access=[of_brokers(ReadShareGroupStateSummaryResponse, ReadStateSummaryResult, ReadStateSummaryPartitionResult)],
)
async def handle(
    services: HasShareStates, context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    states = services.share_states
    return ReadShareGroupStateSummaryResponse(
        await results_by_topic(
            request, lambda key, partition: succeed(states.summary(key)), ReadStateSummaryResult, _answer
        )
    )


def _answer(index: int, state: StoredState | ErrorCode) -> ReadStateSummaryPartitionResult:
    if isinstance(state, ErrorCode):
        return ReadStateSummaryPartitionResult(index, state, state.meaning)
    return ReadStateSummaryPartitionResult(
        index,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
