"""JoinGroup (key 11): enter a group's next generation.

== =======================================================================================
 0 the session timeout serves as the rebalance timeout too
 1 a rebalance timeout of its own
 2 the response has a throttle time
 3 a throttled response is sent before the pause, not after it
 4 a member without an id is given one first (MEMBER_ID_REQUIRED), and joins again with it
 5 static membership
 6 flexible
 7 the response has the protocol's type
 8 the reason for joining
 9 the leader may be told to skip the assignment
== =======================================================================================
"""

from typing import Annotated

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
    Versions,
    fresh,
    struct,
)


@struct
class JoinGroupRequestProtocol:
    """An assignment protocol that the member can do, and what it says about itself in it."""

    name: String = ""
    metadata: Bytes = b""


@struct
class JoinGroupRequest(Request):
    """A member that wants in, with its protocols in the order it prefers them."""

    api_key = 11
    versions = Versions(0, 9, flexible=6)

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
    """A member of the new generation."""

    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(5), IGNORABLE] = None
    metadata: Bytes = b""


@struct
class JoinGroupResponse(Response):
    """The new generation.  Only its leader is told the `members`."""

    api_key = 11
    versions = Versions(0, 9, flexible=6)

    throttle_time_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, Since(7), IGNORABLE] = None
    protocol_name: Annotated[String | None, NullableSince(7)] = ""
    leader: String = ""
    skip_assignment: Annotated[Boolean, Since(9)] = False
    member_id: String = ""
    members: list[JoinGroupResponseMember] = fresh(list)
