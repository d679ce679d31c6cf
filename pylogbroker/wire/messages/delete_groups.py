"""DeleteGroups (key 42): delete empty groups with their offsets.

Versions::

    0  groups by name
    1  KIP-219 throttling
    2  flexible
    3  error messages; error GROUP_DELETION_FAILED
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
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
class DeleteGroupsRequest(Request):
    api_key, versions = APIS["delete_groups"]

    groups_names: list[String] = fresh(list)


@struct
class DeletableGroupResult:
    group_id: String = ""
    error_code: Int16 = 0
    error_message: Annotated[ErrorText | None, Since(3), IGNORABLE] = None


@struct
class DeleteGroupsResponse(Response):
    api_key, versions = APIS["delete_groups"]

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = fresh(list)
