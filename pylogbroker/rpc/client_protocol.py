"""Client side of Kafka's protocol on one connection: version negotiation, encoding and decoding. No I/O.

    protocol = ClientProtocol("localhost:9092", "my-client")
    while not protocol.is_negotiated:
        request, version = protocol.next_request()      # ApiVersions, in older versions until one is accepted
        ...                                             # send it, and
        protocol.handle_response(response)
    encoded = protocol.encode(FetchRequest(...))        # chunks to send
    response = encoded.decode(frame)                    # WireError if the frame is invalid

Brokers answer unsupported versions of ApiVersionsRequest in the layout of version 0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from pylogbroker import __version__
from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.errors import error_of
from pylogbroker.rpc.security import ConnectionSecurity
from pylogbroker.wire import (
    Request,
    UnsupportedVersion,
    WireError,
    decode_response_header,
    request_codec,
    response_codec,
)
from pylogbroker.wire.api_table import APIS, LAST_IN_3_9
from pylogbroker.wire.headers import RequestHeader, encode_request_header, response_header_format
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest

_CORRELATION_IDS: Final = 2**31
_pack_start = struct.Struct(">ihhi").pack
_unpack_int = struct.Struct(">i").unpack_from
_SASL: Final = (SaslHandshakeRequest.api_key, SaslAuthenticateRequest.api_key)
_EMPTY_TAGS_AT: Final = 4  # of a response, behind the correlation id
_START_SIZE: Final = 8  # of a header's start, up to its client id
_READ_IN_4: Final = frozenset({"consumer_group_describe", "describe_cluster"})
"""Modules of APIs whose callers use what their newest versions have."""
_NEWEST_SENT: Final = {
    APIS[module][0]: version for module, version in LAST_IN_3_9.items() if version >= 0 and module not in _READ_IN_4
}
"""Newest versions in requests, by key of APIs that have newer ones, which callers use only if they name the version."""
_UNSUPPORTED: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class EncodedRequest(NamedTuple):
    """Frame of a request, and the decoder of its response."""

    name: str
    chunks: list[Any]
    decode: Callable[[memoryview], Any]


class PreparedRequest(NamedTuple):
    """Request whose body is encoded already; `decode` reads the response's body at a position in its frame.

    `follow_up` takes the response, and returns the request that follows at once, or what the caller gets.
    """

    kind: type[Request]
    version: int
    body: bytes
    decode: Callable[[memoryview, int], Any]
    follow_up: Callable[[Any], Any] | None = None


class _ApiCodec:
    __slots__ = ("_chunks", "_decode", "_header_rest", "_is_header_flexible", "api_key", "name", "version")

    def __init__(self, kind: type[Request], version: int, client_id: str) -> None:
        self.name = kind.__name__.removesuffix("Request")
        self.api_key = kind.api_key
        self.version = version
        header = encode_request_header(RequestHeader(kind.api_key, version, 0, client_id))
        self._header_rest = header[_START_SIZE:]
        self._chunks = request_codec(kind.api_key, version).chunks
        self._decode = response_codec(kind.api_key, version).decode_first
        self._is_header_flexible = response_header_format(kind.api_key, version) != "i"

    def request(self, correlation_id: int, request: Request) -> list[Any]:
        chunks: list[Any] = self._chunks(request)
        rest = self._header_rest
        size = _START_SIZE + len(rest) + sum(map(len, chunks))
        chunks[0] = _pack_start(size, self.api_key, self.version, correlation_id) + rest + chunks[0]
        return chunks

    def prepared(self, correlation_id: int, body: bytes) -> list[Any]:
        rest = self._header_rest
        size = _START_SIZE + len(rest) + len(body)
        return [_pack_start(size, self.api_key, self.version, correlation_id) + rest + body]

    def prepared_response(
        self, correlation_id: int, decode: Callable[[memoryview, int], Any], frame: memoryview
    ) -> Any:
        """Raise WireError if a frame is invalid or belongs to another request."""
        return decode(frame, self._position_of_body(correlation_id, frame))

    def response(self, correlation_id: int, frame: memoryview) -> Any:
        """Raise WireError if a frame is invalid or belongs to another request."""
        position = self._position_of_body(correlation_id, frame)
        if self.api_key == ApiVersionsRequest.api_key and frame[position : position + 2] == _UNSUPPORTED:
            return response_codec(self.api_key, 0).decode_first(frame, position)
        return self._decode(frame, position)

    def _position_of_body(self, correlation_id: int, frame: memoryview) -> int:
        if self._is_header_flexible and len(frame) > _EMPTY_TAGS_AT and not frame[_EMPTY_TAGS_AT]:  # as a rule
            received, position = _unpack_int(frame)[0], _EMPTY_TAGS_AT + 1
        else:
            received, position = decode_response_header(frame, self.api_key, self.version)
        if received != correlation_id:
            raise WireError("its correlation id is that of another request")
        return position


class ClientProtocol:
    """Versions and correlation ids. `peer` names the broker in errors."""

    def __init__(self, peer: str, client_id: str) -> None:
        self.is_negotiated = False
        self.encoded = 0  # the next correlation id, modulo 2^31
        self.peer = peer
        self._client_id = client_id
        self._negotiations = 0
        self._version = _newest_sent(ApiVersionsRequest)
        self._ranges = {ApiVersionsRequest.api_key: (0, self._version)}
        self._newest: dict[type[Request], _ApiCodec] = {}
        self._codecs: dict[tuple[type[Request], int], _ApiCodec] = {}
        self._feature_levels: Mapping[str, int] = {}

    def next_request(self) -> tuple[Request, int]:
        request = ApiVersionsRequest(client_software_name="pylogbroker", client_software_version=__version__)
        return request, self._version

    def assume_versions(self, newest: Mapping[int, int]) -> None:
        """Use the newest versions by API key, and older ones if asked for; those of SASL stay negotiated."""
        sasl = {api_key: self._ranges[api_key] for api_key in _SASL if api_key in self._ranges}
        self._ranges = {**sasl, **{api_key: (0, version) for api_key, version in newest.items()}}
        self.is_negotiated = True

    def handle_response(self, response: ApiVersionsResponse) -> None:
        """Take the broker's versions, or prepare an older version. Raise other errors."""
        self._negotiations += 1
        self._ranges.update({api.api_key: (api.min_version, api.max_version) for api in response.api_keys})
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and self._version:
            self._version = min(self._ranges[ApiVersionsRequest.api_key][1], self._version - 1)
            return
        if response.error_code:
            raise error_of(response.error_code, f"{self.peer} does not list its API versions")
        self._feature_levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
        self.is_negotiated = True

    def feature_level(self, name: str) -> int:
        """Return the level of a feature that the cluster had when the versions were negotiated; 0 if it was off."""
        return self._feature_levels.get(name, 0)

    def hint(self, waiting: int, security: ConnectionSecurity) -> str:
        """Return what may be wrong if the broker closes a connection while so many requests wait for responses.

        A listener with TLS answers nothing to a client without it; one with SASL answers ApiVersions alone.
        """
        answered = self.encoded - waiting
        if not waiting or answered > self._negotiations:
            return ""
        if not answered:
            text = "; does it speak Kafka's protocol"
            return f"{text}?" if security.make_engine else f"{text} without TLS? See {security.names.protocol}"
        return "" if security.credentials else f"; does this listener have SASL? See {security.names.protocol}"

    def version_of(self, kind: type[Request]) -> int:
        """Return the newest version of both sides; raise UnsupportedVersion."""
        return (self._newest.get(kind) or self._make_codec(kind, None)).version

    def encode(self, request: Request | PreparedRequest, version: int | None = None) -> EncodedRequest:
        """Encode the next request, by default in the newest version of both sides.

        Raise UnsupportedVersion, or EncodingError if the version cannot express the request.
        """
        if isinstance(request, PreparedRequest):
            return self._encode_prepared(request)
        kind = type(request)
        if version is None:
            codec = self._newest.get(kind) or self._make_codec(kind, None)
        else:
            codec = self._codecs.get((kind, version)) or self._make_codec(kind, version)
        correlation_id = self.encoded
        chunks = codec.request(correlation_id, request)
        self.encoded = (correlation_id + 1) % _CORRELATION_IDS
        return EncodedRequest(codec.name, chunks, partial(codec.response, correlation_id))

    def _encode_prepared(self, request: PreparedRequest) -> EncodedRequest:
        kind, version = request.kind, request.version
        codec = self._codecs.get((kind, version)) or self._make_codec(kind, version)
        correlation_id = self.encoded
        self.encoded = (correlation_id + 1) % _CORRELATION_IDS
        decode = partial(codec.prepared_response, correlation_id, request.decode)
        return EncodedRequest(codec.name, codec.prepared(correlation_id, request.body), decode)

    def _make_codec(self, kind: type[Request], version: int | None) -> _ApiCodec:
        low, high = self._ranges.get(kind.api_key, (0, -1))
        newest = _newest_sent(kind) if version is None else kind.versions.last
        low, high = max(low, kind.versions.first), min(high, newest)
        chosen = high if version is None else version
        if not low <= chosen <= high:
            api = kind.__name__.removesuffix("Request")
            name = api if version is None else f"{api} v{version}"
            raise UnsupportedVersion(f"the broker at {self.peer} does not support {name}")
        codec = self._codecs[kind, chosen] = _ApiCodec(kind, chosen, self._client_id)
        if version is None:
            self._newest[kind] = codec
        return codec


def _newest_sent(kind: type[Request]) -> int:
    return _NEWEST_SENT.get(kind.api_key, kind.versions.last)
