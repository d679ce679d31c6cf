"""DeleteShareGroupState (86): delete the states of a share group's partitions. The group coordinator sends it."""

from __future__ import annotations

from typing import Any

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasShareStates
from pylogbroker.broker.share.state_requests import of_brokers, results_by_topic
from pylogbroker.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStatePartitionResult,
    DeleteStateResult,
)


@serves(
    DeleteShareGroupStateRequest,
    access=[of_brokers(DeleteShareGroupStateResponse, DeleteStateResult, DeleteStatePartitionResult)],
)
async def handle(
    services: HasShareStates, context: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    states = services.share_states
    return DeleteShareGroupStateResponse(
        await results_by_topic(request, lambda key, partition: states.delete(key), DeleteStateResult, _answer)
    )


def _answer(index: int, error: Any) -> DeleteStatePartitionResult:
    return DeleteStatePartitionResult(index, error, error.meaning if error else None)
