"""BrokerHeartbeat (key 63): a broker reports to the active controller that it lives, and what it wants (KIP-631).

Versions::

    0  flexible
    1  log directories that are offline (KIP-858)
    2  log directories that take no new replicas
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    Boolean,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    Tag,
    Uuid,
    fresh,
    struct,
)


@struct
class BrokerHeartbeatRequest(Request):
    api_key, versions = APIS["broker_heartbeat"]

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: Boolean = False
    want_shut_down: Boolean = False
    offline_log_dirs: Annotated[list[Uuid], Since(1), Tag(0)] = fresh(list)
    cordoned_log_dirs: Annotated[list[Uuid] | None, Since(2), Tag(1)] = None


@struct
class BrokerHeartbeatResponse(Response):
    api_key, versions = APIS["broker_heartbeat"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: Boolean = False
    is_fenced: Boolean = True
    should_shut_down: Boolean = False
