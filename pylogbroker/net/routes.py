"""From a request's header to what reads, handles and answers it.

A request begins `api_key:2 api_version:2 correlation_id:4 client_id_size:2 client_id`, followed by tagged fields
where the version is flexible.  The header is read here by hand because every request pays for it;
`pylogbroker.wire.headers` says the same for both sides.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import attrs

from pylogbroker.broker.apis import APIS, Api
from pylogbroker.broker.apis.api_versions import unsupported
from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ProtocolViolation
from pylogbroker.wire import Chunk, request_codec, response_codec
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_HEADER = struct.Struct(">hhih")

Header = tuple[int, int, int, int, bytes, int]


def read_header(frame: memoryview) -> Header:
    """API key, version, correlation id, size of the client id (-1: null), client id, and where the header goes on."""
    try:
        key, version, correlation_id, id_size = _HEADER.unpack_from(frame)
    except struct.error:
        raise ProtocolViolation(f"a frame of {len(frame)} bytes is too short for a request") from None
    end = 10 + id_size if id_size > 0 else 10
    if end > len(frame) or id_size < -1:
        raise ProtocolViolation(f"a client id of {id_size} bytes in a frame of {len(frame)}")
    return key, version, correlation_id, id_size, bytes(frame[10:end]), end


@attrs.frozen
class Route:
    """What one version of one API needs to be served."""

    name: str
    flexible: bool
    decode: Callable[[memoryview, int], Any]
    handle: Callable[[Any, RequestContext, Any], Any]
    response_type: type
    encode: Callable[[int, Any], list[Chunk]]


class Routes:
    """All routes, made when they are first asked for."""

    def __init__(self, apis: tuple[Api, ...] = APIS) -> None:
        self._apis = {api.key: api for api in apis}
        self._routes: dict[tuple[int, int], Route] = {}

    def find(self, key: int, version: int) -> Route:
        """The route of an API's version; ProtocolViolation for one that is not advertised.

        ApiVersions alone answers a version that it does not know: in the oldest layout, so that the client can choose.
        """
        route = self._routes.get((key, version))
        if route is None:
            route = self._routes[key, version] = self._make(key, version)
        return route

    def _make(self, key: int, version: int) -> Route:
        api = self._apis.get(key)
        if api is None:
            raise ProtocolViolation(f"API key {key} is not served")
        if version in api.versions:
            return _route(api, version)
        if api.request is ApiVersionsRequest:
            return _unsupported_api_versions()
        raise ProtocolViolation(
            f"{api.name} {version} is not served, but {api.versions.first} to {api.versions.last} are"
        )


def _route(api: Api, version: int) -> Route:
    return Route(
        api.name,
        api.versions.is_flexible(version),
        request_codec(api.key, version).decode_first,
        api.handle,
        api.response,
        response_codec(api.key, version).frame,
    )


def _unsupported_api_versions() -> Route:
    """Nothing is read of the request: its layout is not known."""
    return Route(
        "ApiVersions",
        False,
        lambda frame, position: None,
        unsupported,
        ApiVersionsResponse,
        response_codec(ApiVersionsRequest.api_key, 0).frame,
    )
