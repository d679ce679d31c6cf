"""DescribeGroups (key 15): groups and their members.

Versions::

    0  groups by name
    1  `throttle_time_ms`
    2  KIP-219 throttling
    3  authorised operations, when asked for
    4  static membership
    5  flexible
    6  an unknown group is an error with a message
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NOT_ASKED,
    Before,
    Boolean,
    Bytes,
    ErrorText,
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
class DescribeGroupsRequest(Request):
    api_key, versions = APIS["describe_groups"]

    groups: list[String] = fresh(list)
    include_authorized_operations: Annotated[Boolean, Since(3)] = False


@struct
class DescribedGroupMember:
    """Metadata and assignment are set only while the group is stable."""

    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(4), IGNORABLE] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@struct
class DescribedGroup:
    error_code: Int16 = 0
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = fresh(list)
    authorized_operations: Annotated[Int32, Since(3)] = NOT_ASKED
    error_message: Annotated[ErrorText | None, Since(6), Before("group_id")] = None


@struct
class DescribeGroupsResponse(Response):
    api_key, versions = APIS["describe_groups"]

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    groups: list[DescribedGroup] = fresh(list)
