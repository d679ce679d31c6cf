"""SyncGroup (key 14): the leader hands in the assignment, everyone gets their part.

== ===========================================================
 0 group, generation and member
 1 the response has a throttle time
 2 a throttled response is sent before the pause, not after it
 3 static membership
 4 flexible
 5 the protocol's type and name, both ways
== ===========================================================
"""

from typing import Annotated

from pylogbroker.wire.schema import (
    IGNORABLE,
    Bytes,
    Int16,
    Int32,
    Request,
    Response,
    Since,
    String,
    Versions,
    fresh,
    struct,
)


@struct
class SyncGroupRequestAssignment:
    """One member's part."""

    member_id: String = ""
    assignment: Bytes = b""


@struct
class SyncGroupRequest(Request):
    """A member that waits for its part.  Only the leader's request has `assignments`."""

    api_key = 14
    versions = Versions(0, 5, flexible=4)

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(3)] = None
    protocol_type: Annotated[String | None, Since(5), IGNORABLE] = None
    protocol_name: Annotated[String | None, Since(5), IGNORABLE] = None
    assignments: list[SyncGroupRequestAssignment] = fresh(list)


@struct
class SyncGroupResponse(Response):
    """The member's part."""

    api_key = 14
    versions = Versions(0, 5, flexible=4)

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, Since(5), IGNORABLE] = None
    protocol_name: Annotated[String | None, Since(5), IGNORABLE] = None
    assignment: Bytes = b""
