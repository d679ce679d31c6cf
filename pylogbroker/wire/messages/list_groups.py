"""ListGroups (key 16): the groups that a broker coordinates.

Versions::

    0  all groups
    1  `throttle_time_ms`
    2  KIP-219 throttling
    3  flexible
    4  filter by state
    5  filter by type
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
    fresh,
    struct,
)


@struct
class ListGroupsRequest(Request):
    """An empty filter matches all groups."""

    api_key, versions = APIS["list_groups"]

    states_filter: Annotated[list[String], Since(4)] = fresh(list)
    types_filter: Annotated[list[String], Since(5)] = fresh(list)


@struct
class ListedGroup:
    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, Since(4), IGNORABLE] = ""
    group_type: Annotated[String, Since(5), IGNORABLE] = ""


@struct
class ListGroupsResponse(Response):
    api_key, versions = APIS["list_groups"]

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = fresh(list)
