"""IncrementalAlterConfigs (key 44): change single settings of a resource.

Versions::

    0  resources, with operations on their settings
    1  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    Boolean,
    ErrorText,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    String,
    fresh,
    struct,
)


@struct
class AlterableConfig:
    """Operations: 0 set, 1 delete, 2 append to a list, 3 subtract from a list."""

    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


@struct
class AlterConfigsResource:
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = fresh(list)


@struct
class IncrementalAlterConfigsRequest(Request):
    api_key, versions = APIS["incremental_alter_configs"]

    resources: list[AlterConfigsResource] = fresh(list)
    validate_only: Boolean = False


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: ErrorText | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@struct
class IncrementalAlterConfigsResponse(Response):
    api_key, versions = APIS["incremental_alter_configs"]

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = fresh(list)
