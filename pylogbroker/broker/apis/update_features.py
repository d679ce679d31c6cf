"""UpdateFeatures (57): change the cluster's finalized features (KIP-584).

Brokers of a cluster in ZooKeeper mode support no feature, so there is none to finalize, or to delete.
"""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.membership.control import ClusterServices
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


@serves(UpdateFeaturesRequest, cluster_only=True)
def handle(
    services: ClusterServices, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    try:
        _ = services.cluster_control.image
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.detail)
    if not request.feature_updates:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="The request names no feature; name at least one"
        )
    return UpdateFeaturesResponse(
        results=[
            UpdatableFeatureResult(update.feature, ErrorCode.INVALID_REQUEST, _problem(update))
            for update in request.feature_updates
        ]
    )


def _problem(update: FeatureUpdateKey) -> str:
    if not update.feature:
        return "A feature has no name"
    if update.max_version_level < 1:
        return f"The feature {update.feature!r} is not finalized, so it cannot be deleted"
    return f"The brokers do not support the feature {update.feature!r}"
