"""Heartbeat (key 12): keep a membership alive, and learn of rebalances.

Versions::

    0  group, generation and member
    1  `throttle_time_ms`
    2  KIP-219 throttling
    3  static membership
    4  flexible
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Int16,
    Int32,
    Request,
    Response,
    Since,
    String,
    struct,
)


@struct
class HeartbeatRequest(Request):
    api_key, versions = APIS["heartbeat"]

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(3)] = None


@struct
class HeartbeatResponse(Response):
    """REBALANCE_IN_PROGRESS asks the member to send JoinGroup."""

    api_key, versions = APIS["heartbeat"]

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Int16 = 0
