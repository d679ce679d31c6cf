"""Routes of APIs, which are kept for the next request."""

from __future__ import annotations

from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.offered_versions import offered_versions
from pylogbroker.net.routes import Routes
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


def test_versions_that_are_not_known_have_one_route() -> None:
    """A client that is not authenticated may ask for each of them: they must not fill the memory."""
    routes = Routes([Api.of(ApiVersionsRequest, lambda *_: ApiVersionsResponse())], None)
    newest = offered_versions(ApiVersionsRequest.api_key).last
    assert routes.find(18, newest) is not routes.find(18, newest + 1)
    assert len({id(routes.find(18, version)) for version in (*range(newest + 1, 1000), -1, -(2**15))}) == 1
    assert [version for version, _ in routes] == [newest, newest + 1]
