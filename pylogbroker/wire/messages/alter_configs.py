"""AlterConfigs (key 33): replace all dynamic settings of a resource.

== ===========================================================
 0 resources and their settings
 1 a throttled response is sent before the pause, not after it
 2 flexible
== ===========================================================
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
    """A setting and its new value."""

    name: String = ""
    value: String | None = ""


@struct
class AlterConfigsResource:
    """The settings that a resource is to have; those not named return to their defaults."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = fresh(list)


@struct
class AlterConfigsRequest(Request):
    """The resources to change."""

    api_key = 33
    versions = Versions(0, 2, flexible=2)

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
class AlterConfigsResponse(Response):
    """Whether they were changed."""

    api_key = 33
    versions = Versions(0, 2, flexible=2)

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = fresh(list)
