"""ApiVersions (18): the APIs that this broker serves, with their versions.

Clients do not know the broker's versions yet. So the response has the header of version 0, and answers an unknown
version in version 0.

A client may say which cluster and node it means to reach (KIP-1242). Another one answers REBOOTSTRAP_REQUIRED: the
address belongs to another broker now.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import unchecked
from pylogbroker.broker.services import Features, HasApis, HasFeatures, HasNode
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_CLIENT_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE = 3
_NO_NODE: Final = -1
_FIRST_WITH_FEATURES_THAT_CAN_BE_OFF = 4


class _Services(HasApis, HasNode, HasFeatures, Protocol):
    """Services that this API uses."""


@serves(ApiVersionsRequest, access=[unchecked])
def handle(services: _Services, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.api_version >= _FIRST_WITH_SOFTWARE:
        names = (request.client_software_name, request.client_software_version)
        if not all(_CLIENT_SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        context.caller.software = names
    error = _identity_error(services, request)
    if error:
        return ApiVersionsResponse(error)
    features = services.features
    return ApiVersionsResponse(
        api_keys=_advertised(services),
        supported_features=_supported(features, context.api_version) if features.is_on else [],
        finalized_features_epoch=features.epoch,
        finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in features.levels.items()],
    )


def _supported(features: Features, version: int) -> list[SupportedFeatureKey]:
    """Clients of older versions take a level of 0 for an error."""
    return [
        SupportedFeatureKey(name, levels.first, levels.last)
        for name, levels in features.supported.items()
        if levels.first or version >= _FIRST_WITH_FEATURES_THAT_CAN_BE_OFF
    ]


def unsupported(services: HasApis, context: RequestContext, request: None) -> ApiVersionsResponse:
    return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, api_keys=_advertised(services))


def _identity_error(services: HasNode, request: ApiVersionsRequest) -> ErrorCode:
    """Return NONE if this is the node that the client means, or it names none."""
    if request.cluster_id is None and request.node_id == _NO_NODE:
        return ErrorCode.NONE
    if request.cluster_id is None or request.node_id == _NO_NODE:
        return ErrorCode.INVALID_REQUEST
    if (request.cluster_id, request.node_id) != (services.node.cluster_id, services.node.id):
        return ErrorCode.REBOOTSTRAP_REQUIRED
    return ErrorCode.NONE


def _advertised(services: HasApis) -> list[ApiVersion]:
    return [ApiVersion(api.key, api.versions.first, api.versions.last) for api in services.apis if api.is_on()]
