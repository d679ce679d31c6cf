"""LeaveGroup (key 13): remove members from their group.

Versions::

    0  one member
    1  `throttle_time_ms`
    2  KIP-219 throttling
    3  several members, static ones too
    4  flexible
    5  the reason for leaving
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
    Until,
    fresh,
    struct,
)


@struct
class MemberIdentity:
    member_id: String = ""
    group_instance_id: String | None = None
    reason: Annotated[String | None, Since(5), IGNORABLE] = None


@struct
class LeaveGroupRequest(Request):
    """`member_id` below version 3, then `members`."""

    api_key, versions = APIS["leave_group"]

    group_id: String = ""
    member_id: Annotated[String, Until(2)] = ""
    members: Annotated[list[MemberIdentity], Since(3)] = fresh(list)


@struct
class MemberResponse:
    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


@struct
class LeaveGroupResponse(Response):
    api_key, versions = APIS["leave_group"]

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], Since(3)] = fresh(list)
