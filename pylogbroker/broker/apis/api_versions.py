"""ApiVersions (18): what this broker serves, in which versions.

The response's header is that of version 0 always, and a version that is not known is answered in version 0's layout: a
client asks before it knows anything of the broker.
"""

from __future__ import annotations

import re

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_CLIENT_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE = 3


@serves(ApiVersionsRequest)
def handle(services: Services, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """List the table of APIs."""
    if context.api_version >= _FIRST_WITH_SOFTWARE:
        names = (request.client_software_name, request.client_software_version)
        if not all(_CLIENT_SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=_advertised(services))


def unsupported(services: Services, context: RequestContext, request: None) -> ApiVersionsResponse:
    """The answer to a version that is not known."""
    return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, api_keys=_advertised(services))


def _advertised(services: Services) -> list[ApiVersion]:
    return [ApiVersion(api.key, api.versions.first, api.versions.last) for api in services.apis]
