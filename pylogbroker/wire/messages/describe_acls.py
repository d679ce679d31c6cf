"""DescribeAcls (key 29): the ACL entries that match a filter.

Versions::

    0  literal resource names alone
    1  prefixed names: `pattern_type`
    2  flexible
    3  resources of the type user
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
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

LITERAL = 3


@struct
class DescribeAclsRequest(Request):
    """A filter: null matches any."""

    api_key, versions = APIS["describe_acls"]

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Annotated[Int8, Since(1)] = LITERAL
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class AclDescription:
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DescribeAclsResource:
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Annotated[Int8, Since(1)] = LITERAL
    acls: list[AclDescription] = fresh(list)


@struct
class DescribeAclsResponse(Response):
    api_key, versions = APIS["describe_acls"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: list[DescribeAclsResource] = fresh(list)
