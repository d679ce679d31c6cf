"""InitializeShareGroupState (83): begin a life of a share group in partitions. The group coordinator sends it."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasShareStates
from pylogbroker.broker.share.state_requests import of_brokers, results_by_topic
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.groups.share.stored_state import NO_START
from pylogbroker.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStatePartition,
    InitializeStatePartitionResult,
    InitializeStateResult,
)


@serves(
    InitializeShareGroupStateRequest,
    access=[of_brokers(InitializeShareGroupStateResponse, InitializeStateResult, InitializeStatePartitionResult)],
)
async def handle(
    services: HasShareStates, context: RequestContext, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    def initialize(key: SharePartitionKey, partition: InitializeStatePartition) -> Deferred[ErrorCode]:
        if partition.state_epoch < 0 or partition.start_offset < NO_START:
            return succeed(ErrorCode.INVALID_REQUEST)
        return services.share_states.initialize(key, partition.state_epoch, partition.start_offset)

    return InitializeShareGroupStateResponse(
        await results_by_topic(request, initialize, InitializeStateResult, _answer)
    )


def _answer(index: int, error: Any) -> InitializeStatePartitionResult:
    return InitializeStatePartitionResult(index, error, error.meaning if error else None)
