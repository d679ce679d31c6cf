"""DeleteAcls (key 31): delete the ACL entries that match filters.

Versions::

    0  literal resource names alone
    1  prefixed names: `pattern_type`
    2  flexible
    3  resources of the type user
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.messages.describe_acls import LITERAL
from pylogbroker.wire.schema import (
    Int8,
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
class DeleteAclsFilter:
    """Null matches any."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Annotated[Int8, Since(1)] = LITERAL
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DeleteAclsRequest(Request):
    api_key, versions = APIS["delete_acls"]

    filters: list[DeleteAclsFilter] = fresh(list)


@struct
class DeleteAclsMatchingAcl:
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Annotated[Int8, Since(1)] = LITERAL
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DeleteAclsFilterResult:
    error_code: Int16 = 0
    error_message: String | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = fresh(list)


@struct
class DeleteAclsResponse(Response):
    """Results in the order of the request."""

    api_key, versions = APIS["delete_acls"]

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = fresh(list)
