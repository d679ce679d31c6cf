"""DeleteGroups (key 42): delete empty groups with their offsets.

Versions::

    0  groups by name
    1  KIP-219 throttling
    2  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    Int16,
    Int32,
    Request,
    Response,
    String,
    fresh,
    struct,
)


@struct
class DeleteGroupsRequest(Request):
    api_key, versions = APIS["delete_groups"]

    groups_names: list[String] = fresh(list)


@struct
class DeletableGroupResult:
    group_id: String = ""
    error_code: Int16 = 0


@struct
class DeleteGroupsResponse(Response):
    api_key, versions = APIS["delete_groups"]

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = fresh(list)
