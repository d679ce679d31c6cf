"""ApiVersions (key 18): what a broker can speak.  The header of its response is never flexible.

== ===================================================================
 0 the ranges of versions
 1 the response has a throttle time
 2 a throttled response is sent before the pause, not after it
 3 flexible; the client's name and version; features, as tagged fields
 4 as version 3; a supported feature may have 0 as its least version
== ===================================================================
"""

from typing import Annotated

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
    Versions,
    fresh,
    struct,
)


@struct
class ApiVersionsRequest(Request):
    """A client that asks, and who it is."""

    api_key = 18
    versions = Versions(0, 4, flexible=3)

    client_software_name: Annotated[String, Since(3), IGNORABLE] = ""
    client_software_version: Annotated[String, Since(3), IGNORABLE] = ""


@struct
class ApiVersion:
    """One API and its range of versions."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey:
    """A feature that the broker supports."""

    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class FinalizedFeatureKey:
    """A feature that the whole cluster has agreed on."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@struct
class ApiVersionsResponse(Response):
    """The ranges.  With UNSUPPORTED_VERSION it is in the layout of version 0."""

    api_key = 18
    versions = Versions(0, 4, flexible=3)

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = fresh(list)
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Since(3), Tag(0), IGNORABLE] = fresh(list)
    finalized_features_epoch: Annotated[Int64, Since(3), Tag(1), IGNORABLE] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Since(3), Tag(2), IGNORABLE] = fresh(list)
    zk_migration_ready: Annotated[Boolean, Since(3), Tag(3), IGNORABLE] = False
