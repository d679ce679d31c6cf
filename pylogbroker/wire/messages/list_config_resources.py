"""ListConfigResources (key 74): names of what has settings. Kafka 3.9 calls it ListClientMetricsResources.

Versions::

    0  client metrics; flexible
    1  types of resources, by default all
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
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
class ListConfigResourcesRequest(Request):
    """No `resource_types` means all of them."""

    api_key, versions = APIS["list_config_resources"]

    resource_types: Annotated[list[Int8], Since(1)] = fresh(list)


@struct
class ConfigResource:
    resource_name: String = ""
    resource_type: Annotated[Int8, Since(1), IGNORABLE] = 16


@struct
class ListConfigResourcesResponse(Response):
    api_key, versions = APIS["list_config_resources"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = fresh(list)
