"""DescribeConfigs (key 32): settings of topics (resource type 2), brokers (4) and loggers (8).

Versions::

    0  name, value, whether it is the default
    1  a value's source and synonyms
    2  KIP-219 throttling
    3  types and documentation
    4  flexible
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Boolean,
    ErrorText,
    Int8,
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
class DescribeConfigsResource:
    """Null `configuration_keys` means all."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: list[String] | None = fresh(list)


@struct
class DescribeConfigsRequest(Request):
    api_key, versions = APIS["describe_configs"]

    resources: list[DescribeConfigsResource] = fresh(list)
    include_synonyms: Annotated[Boolean, Since(1)] = False
    include_documentation: Annotated[Boolean, Since(3)] = False


@struct
class DescribeConfigsSynonym:
    """Settings that give the value, in order of precedence."""

    name: String = ""
    value: String | None = ""
    source: Int8 = 0


@struct
class DescribeConfigsResourceResult:
    """Sensitive values are null."""

    name: String = ""
    value: String | None = ""
    read_only: Boolean = False
    is_default: Annotated[Boolean, Until(0)] = False
    config_source: Annotated[Int8, Since(1), IGNORABLE] = -1
    is_sensitive: Boolean = False
    synonyms: Annotated[list[DescribeConfigsSynonym], Since(1), IGNORABLE] = fresh(list)
    config_type: Annotated[Int8, Since(3), IGNORABLE] = 0
    documentation: Annotated[String | None, Since(3), IGNORABLE] = ""


@struct
class DescribeConfigsResult:
    error_code: Int16 = 0
    error_message: ErrorText | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = fresh(list)


@struct
class DescribeConfigsResponse(Response):
    api_key, versions = APIS["describe_configs"]

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = fresh(list)
