"""IncrementalAlterConfigs (key 44): change single settings of a resource.

== ==========================================
 0 resources and what to do to their settings
 1 flexible
== ==========================================
"""

from pylogbroker.wire.schema import (
    Boolean,
    ErrorText,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Versions,
    fresh,
    struct,
)


@struct
class AlterableConfig:
    """What to do to a setting: 0 set it, 1 delete it, 2 append to a list, 3 subtract from a list."""

    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


@struct
class AlterConfigsResource:
    """The changes to one resource."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = fresh(list)


@struct
class IncrementalAlterConfigsRequest(Request):
    """The resources to change."""

    api_key = 44
    versions = Versions(0, 1, flexible=1)

    resources: list[AlterConfigsResource] = fresh(list)
    validate_only: Boolean = False


@struct
class AlterConfigsResourceResponse:
    """Whether one resource was changed."""

    error_code: Int16 = 0
    error_message: ErrorText | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@struct
class IncrementalAlterConfigsResponse(Response):
    """Whether they were changed."""

    api_key = 44
    versions = Versions(0, 1, flexible=1)

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = fresh(list)
