"""JoinGroup (key 11): join a group's next generation.

Versions::

    0  the session timeout is also the rebalance timeout
    1  rebalance timeout
    2  `throttle_time_ms`
    3  KIP-219 throttling
    4  a new member gets an id (MEMBER_ID_REQUIRED) and joins again
    5  static membership
    6  flexible
    7  the response has the protocol's type
    8  the reason for joining
    9  `skip_assignment` for the leader
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Boolean,
    Bytes,
    Int16,
    Int32,
    NullableSince,
    Request,
    Response,
    Since,
    String,
    fresh,
    struct,
)


@struct
class JoinGroupRequestProtocol:
    """Assignment protocol and the member's metadata for it."""

    name: String = ""
    metadata: Bytes = b""


@struct
class JoinGroupRequest(Request):
    """Protocols are in order of preference."""

    api_key, versions = APIS["join_group"]

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, Since(1), IGNORABLE] = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(5)] = None
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = fresh(list)
    reason: Annotated[String | None, Since(8), IGNORABLE] = None


@struct
class JoinGroupResponseMember:
    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(5), IGNORABLE] = None
    metadata: Bytes = b""


@struct
class JoinGroupResponse(Response):
    """Only the leader gets `members`."""

    api_key, versions = APIS["join_group"]

    throttle_time_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, Since(7), IGNORABLE] = None
    protocol_name: Annotated[String | None, NullableSince(7)] = ""
    leader: String = ""
    skip_assignment: Annotated[Boolean, Since(9)] = False
    member_id: String = ""
    members: list[JoinGroupResponseMember] = fresh(list)
