"""UpdateFeatures (key 57): change the cluster's finalized features (KIP-584).

Versions::

    0  flexible; `allow_downgrade`
    1  `upgrade_type` replaces `allow_downgrade`; `validate_only` (KIP-778)
    2  one error for all updates, without results
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
class FeatureUpdateKey:
    """`upgrade_type` is 1 for upgrades only, 2 for safe downgrades, 3 for unsafe ones.

    A level below 1 deletes the feature.
    """

    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[Boolean, Until(0)] = False
    upgrade_type: Annotated[Int8, Since(1)] = 1


@struct
class UpdateFeaturesRequest(Request):
    api_key, versions = APIS["update_features"]

    timeout_ms: Int32 = 60_000
    feature_updates: list[FeatureUpdateKey] = fresh(list)
    validate_only: Annotated[Boolean, Since(1)] = False


@struct
class UpdatableFeatureResult:
    feature: String = ""
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class UpdateFeaturesResponse(Response):
    api_key, versions = APIS["update_features"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    results: Annotated[list[UpdatableFeatureResult], Until(1), IGNORABLE] = fresh(list)
