"""API version negotiation with one broker, encoding of requests and decoding of responses. No I/O.

    speakers = VersionNegotiation("localhost:9092", "my-client")
    while not speakers.is_greeted:
        request, version = speakers.greeting()          # ApiVersions, in older versions until the broker accepts one
        ...                                             # send it, and
        speakers.greeted(response)
    speaker = speakers.newest(FetchRequest)             # the newest version that both sides support
    chunks = speaker.request(correlation_id, request)   # the bytes to send, in pieces
    response = speaker.answer(correlation_id, frame)    # WireError if the frame is invalid

A broker that does not support the version of an ApiVersionsRequest answers in the layout of version 0.
"""

from __future__ import annotations

import struct
from typing import Any

from pylogbroker import __version__
from pylogbroker.client.errors import error_of
from pylogbroker.errors import ErrorCode
from pylogbroker.wire import (
    Request,
    UnsupportedVersion,
    WireError,
    decode_response_header,
    request_codec,
    response_codec,
)
from pylogbroker.wire.headers import RequestHeader, encode_request_header
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_pack_start = struct.Struct(">ihhi").pack
_START_SIZE = 8  # of a header, up to its client id
_REFUSED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class ApiCodec:
    """One API in one version: the header of its requests, their encoder, and the decoder of responses."""

    __slots__ = ("_chunks", "_decode", "_header_rest", "api_key", "name", "version")

    def __init__(self, kind: type[Request], version: int, client_id: str) -> None:
        self.name = kind.__name__.removesuffix("Request")
        self.api_key = kind.api_key
        self.version = version
        header = encode_request_header(RequestHeader(kind.api_key, version, 0, client_id))
        self._header_rest = header[_START_SIZE:]
        self._chunks = request_codec(kind.api_key, version).chunks
        self._decode = response_codec(kind.api_key, version).decode_first

    def request(self, correlation_id: int, request: Request) -> list[Any]:
        """Return a whole frame, in chunks; raise EncodingError if the version cannot express the request."""
        chunks: list[Any] = self._chunks(request)
        rest = self._header_rest
        size = _START_SIZE + len(rest) + sum(map(len, chunks))
        chunks[0] = _pack_start(size, self.api_key, self.version, correlation_id) + rest + chunks[0]
        return chunks

    def answer(self, correlation_id: int, frame: memoryview) -> Any:
        """Decode the response in a frame; raise WireError if it is invalid or belongs to another request."""
        told, position = decode_response_header(frame, self.api_key, self.version)
        if told != correlation_id:
            raise WireError("its correlation id is that of another request")
        if self.api_key == ApiVersionsRequest.api_key and frame[position : position + 2] == _REFUSED:
            return response_codec(self.api_key, 0).decode_first(frame, position)
        return self._decode(frame, position)


class VersionNegotiation:
    """VersionNegotiation of one connection, created on demand. `peer` names the broker in errors."""

    def __init__(self, peer: str, client_id: str) -> None:
        self.is_complete = False
        self._peer = peer
        self._client_id = client_id
        self._version = ApiVersionsRequest.versions.last
        self._ranges = {ApiVersionsRequest.api_key: (0, self._version)}
        self._newest: dict[type[Request], ApiCodec] = {}
        self._versions: dict[tuple[type[Request], int], ApiCodec] = {}

    def next_request(self) -> tuple[Request, int]:
        """Return the first request, and its version."""
        request = ApiVersionsRequest(client_software_name="pylogbroker", client_software_version=__version__)
        return request, self._version

    def handle_response(self, response: ApiVersionsResponse) -> None:
        """Process the response to a greeting. Unless `is_greeted` then, send another. Raise any other error."""
        self._ranges.update({api.api_key: (api.min_version, api.max_version) for api in response.api_keys})
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and self._version:
            self._version = min(self._ranges[ApiVersionsRequest.api_key][1], self._version - 1)
            return
        if response.error_code:
            raise error_of(response.error_code, f"{self._peer} does not list its API versions")
        self.is_complete = True

    def newest(self, kind: type[Request]) -> ApiCodec:
        """Return the speaker of the newest version that both sides support, or raise UnsupportedVersion."""
        return self._newest.get(kind) or self._make_codec(kind, None)

    def of(self, kind: type[Request], version: int) -> ApiCodec:
        """Return the speaker of a version; raise UnsupportedVersion if either side does not support it."""
        return self._versions.get((kind, version)) or self._make_codec(kind, version)

    def _make_codec(self, kind: type[Request], version: int | None) -> ApiCodec:
        low, high = self._ranges.get(kind.api_key, (0, -1))
        low, high = max(low, kind.versions.first), min(high, kind.versions.last)
        chosen = high if version is None else version
        if not low <= chosen <= high:
            name = kind.__name__ if version is None else f"{kind.__name__} v{version}"
            raise UnsupportedVersion(f"the broker at {self._peer} does not support {name}")
        codec = self._versions[kind, chosen] = ApiCodec(kind, chosen, self._client_id)
        if version is None:
            self._newest[kind] = codec
        return codec
