"""Heartbeat (12): a member shows that it lives, and learns when the group rebalances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.groups import Heartbeat
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


@serves(HeartbeatRequest)
def handle(broker: Broker, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Tell the coordinator."""
    beat = Heartbeat(request.group_id, request.generation_id, request.member_id, request.group_instance_id)
    return HeartbeatResponse(error_code=broker.groups.heartbeat(beat, broker.now_ms()))
