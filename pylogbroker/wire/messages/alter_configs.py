"""AlterConfigs (key 33): replace all dynamic settings of a resource.

Versions::

    0  resources and their settings
    1  KIP-219 throttling
    2  flexible
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
    name: String = ""
    value: String | None = ""


@struct
class AlterConfigsResource:
    """Settings not named return to their defaults."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = fresh(list)


@struct
class AlterConfigsRequest(Request):
    api_key, versions = APIS["alter_configs"]

    resources: list[AlterConfigsResource] = fresh(list)
    validate_only: Boolean = False


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: ErrorText | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@struct
class AlterConfigsResponse(Response):
    api_key, versions = APIS["alter_configs"]

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = fresh(list)
