"""UpdateFeatures (57): change the levels of the cluster's features (KIP-584), all of them or none.

Brokers of a cluster with Kafka 3.9 support no feature, so there is none to finalize, or to delete. Each is answered
once. The messages are Kafka's, as its tools show them. Source: KafkaController.validateFeatureUpdate.
"""

from __future__ import annotations

from typing import Final, Protocol

from pylogbroker.broker.membership.control import HasPlacementControl
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasFeatures
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import mapped, over
from pylogbroker.metadata.feature_levels import LevelChange
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_FIRST_WITH_UPGRADE_TYPE: Final = 1
_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3


class _Services(HasPlacementControl, HasFeatures, Protocol):
    """Services that this API uses."""


@serves(UpdateFeaturesRequest, access=[on_cluster(AclOperation.ALTER)])
async def handle(
    services: _Services, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    if services.features.is_on:
        return await _change(services, request, context.api_version)
    try:
        _ = services.cluster_control.image
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.detail)
    return await _rejected(request, context.api_version)


async def _change(services: HasFeatures, request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
    distinct: dict[str, LevelChange] = {}
    async for update in over(request.feature_updates):
        change = LevelChange(update.feature, update.max_version_level, _kind(update, version))
        distinct.setdefault(update.feature, change)
    changes = list(distinct.values())
    try:
        await services.features.change(changes, request.validate_only)
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.detail)
    return UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(change.feature, error_message="NONE") for change in changes]
    )


def _kind(update: FeatureUpdateKey, version: int) -> int:
    if version < _FIRST_WITH_UPGRADE_TYPE:
        return _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
    return update.upgrade_type


async def _rejected(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
    def reject(update: FeatureUpdateKey) -> UpdatableFeatureResult:
        return UpdatableFeatureResult(update.feature, ErrorCode.INVALID_REQUEST, _problem(update, version))

    distinct: dict[str, FeatureUpdateKey] = {}
    await mapped(lambda update: distinct.setdefault(update.feature, update), request.feature_updates)
    return UpdateFeaturesResponse(results=await mapped(reject, distinct.values()))


def _problem(update: FeatureUpdateKey, version: int) -> str:
    kind = _kind(update, version)
    level = update.max_version_level
    if not update.feature:
        return "Feature name can not be empty."
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "Received unknown upgrade type."
    if level >= 1:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if kind == _UPGRADE:
        return (
            f"Can not provide maxVersionLevel: {level} less than 1 without setting the SAFE_DOWNGRADE flag to true in "
            "the request."
        )
    return "Can not delete non-existing finalized feature."
