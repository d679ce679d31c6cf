"""ApiVersions (18): the APIs that this broker serves, with their versions.

Clients do not know the broker's versions yet. So the response has the header of version 0, and answers an unknown
version in version 0.
"""

from __future__ import annotations

import re

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import unchecked
from pylogbroker.broker.services import HasApis
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_CLIENT_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE = 3
_FEATURES_EPOCH = 0  # as in ZooKeeper mode, where no feature can be finalized; -1 means that the broker does not know


@serves(ApiVersionsRequest, access=[unchecked])
def handle(services: HasApis, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.api_version >= _FIRST_WITH_SOFTWARE:
        names = (request.client_software_name, request.client_software_version)
        if not all(_CLIENT_SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        context.caller.software = names
    return ApiVersionsResponse(api_keys=_advertised(services), finalized_features_epoch=_FEATURES_EPOCH)


def unsupported(services: HasApis, context: RequestContext, request: None) -> ApiVersionsResponse:
    return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, api_keys=_advertised(services))


def _advertised(services: HasApis) -> list[ApiVersion]:
    return [ApiVersion(api.key, api.versions.first, api.versions.last) for api in services.apis]
