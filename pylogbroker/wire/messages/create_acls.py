"""CreateAcls (key 30): create ACL entries.

Versions::

    0  literal resource names alone
    1  prefixed names: `resource_pattern_type`
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
class AclCreation:
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Annotated[Int8, Since(1)] = LITERAL
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class CreateAclsRequest(Request):
    api_key, versions = APIS["create_acls"]

    creations: list[AclCreation] = fresh(list)


@struct
class AclCreationResult:
    error_code: Int16 = 0
    error_message: String | None = ""


@struct
class CreateAclsResponse(Response):
    """Results in the order of the request."""

    api_key, versions = APIS["create_acls"]

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = fresh(list)
