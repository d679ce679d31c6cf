"""ApiVersions (key 18): the APIs of a broker and their versions. The response's header is never flexible.

Versions::

    0  version ranges
    1  `throttle_time_ms`
    2  KIP-219 throttling
    3  flexible; the client's name and version; features
    4  supported features may begin at version 0
    5  the cluster and node that the client means (KIP-1242)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Boolean,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    Tag,
    fresh,
    struct,
)


@struct
class ApiVersionsRequest(Request):
    api_key, versions = APIS["api_versions"]

    client_software_name: Annotated[String, Since(3), IGNORABLE] = ""
    client_software_version: Annotated[String, Since(3), IGNORABLE] = ""
    cluster_id: Annotated[String | None, Since(5), IGNORABLE] = None
    node_id: Annotated[Int32, Since(5), IGNORABLE] = -1


@struct
class ApiVersion:
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey:
    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class FinalizedFeatureKey:
    """Feature that the whole cluster has agreed on."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@struct
class ApiVersionsResponse(Response):
    """Supported versions; with UNSUPPORTED_VERSION, the response has the layout of version 0."""

    api_key, versions = APIS["api_versions"]

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = fresh(list)
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Since(3), Tag(0), IGNORABLE] = fresh(list)
    finalized_features_epoch: Annotated[Int64, Since(3), Tag(1), IGNORABLE] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Since(3), Tag(2), IGNORABLE] = fresh(list)
    zk_migration_ready: Annotated[Boolean, Since(3), Tag(3), IGNORABLE] = False
