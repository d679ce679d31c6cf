"""SyncGroup (key 14): send the leader's assignment to the members.

Versions::

    0  group, generation and member
    1  `throttle_time_ms`
    2  KIP-219 throttling
    3  static membership
    4  flexible
    5  the protocol's type and name, both ways
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Bytes,
    Int16,
    Int32,
    Request,
    Response,
    Since,
    String,
    fresh,
    struct,
)


@struct
class SyncGroupRequestAssignment:
    member_id: String = ""
    assignment: Bytes = b""


@struct
class SyncGroupRequest(Request):
    """Only the leader sends `assignments`."""

    api_key, versions = APIS["sync_group"]

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(3)] = None
    protocol_type: Annotated[String | None, Since(5), IGNORABLE] = None
    protocol_name: Annotated[String | None, Since(5), IGNORABLE] = None
    assignments: list[SyncGroupRequestAssignment] = fresh(list)


@struct
class SyncGroupResponse(Response):
    api_key, versions = APIS["sync_group"]

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, Since(5), IGNORABLE] = None
    protocol_name: Annotated[String | None, Since(5), IGNORABLE] = None
    assignment: Bytes = b""
