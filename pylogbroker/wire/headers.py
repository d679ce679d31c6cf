"""Request and response headers.

Request::

    api_key  api_version  correlation_id | client_id       | tagged fields
    i2       i2           i4             | nullable string | flexible versions only

The client id is never compact, so that brokers can read headers of unknown versions. ControlledShutdown 0 has none.

A response's header is the correlation id, and tagged fields in flexible versions, except for ApiVersions: clients do
not know versions yet. All tagged fields of headers are skipped.
"""

import struct
from typing import Final

import attrs

from pylogbroker.wire.decoder_compiler import read_tagged
from pylogbroker.wire.errors import EncodingError, WireError
from pylogbroker.wire.messages import SUPPORTED
from pylogbroker.wire.primitives import text

_API_VERSIONS: Final = 18
_CONTROLLED_SHUTDOWN: Final = 7
_TAGGED_MAX: Final = 1000

_request = struct.Struct(">hhih")
_unpack_request = _request.unpack_from
_pack_request_start = struct.Struct(">hhi").pack
_pack_length = struct.Struct(">h").pack
_unpack_correlation_id = struct.Struct(">i").unpack_from


@attrs.define
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def is_flexible(api_key: int, version: int) -> bool:
    """Return whether sizes are compact and tagged fields exist."""
    declared = SUPPORTED.get(api_key)
    return declared is not None and declared[0].versions.is_flexible(version)


def decode_request_header(buffer: memoryview) -> tuple[RequestHeader, int]:
    """Return the header of a frame (without its size), and the next position."""
    try:
        api_key, version, correlation_id, size = _unpack_request(buffer)
        if api_key == _CONTROLLED_SHUTDOWN and version == 0:
            return RequestHeader(api_key, version, correlation_id, None), 8
        position = _request.size
        client_id = None
        if size >= 0:
            client_id = text(buffer[position : position + size].tobytes())
            position += size
        if is_flexible(api_key, version):
            position = skip_tagged(buffer, position)
    except (struct.error, IndexError):
        raise WireError("a request's header is cut off") from None
    if position > len(buffer):
        raise WireError("a request's client id is cut off")
    return RequestHeader(api_key, version, correlation_id, client_id), position


def encode_request_header(header: RequestHeader) -> bytes:
    start = _pack_request_start(header.api_key, header.api_version, header.correlation_id)
    if header.api_key == _CONTROLLED_SHUTDOWN and header.api_version == 0:
        return start
    tagged = b"\0" if is_flexible(header.api_key, header.api_version) else b""
    return start + _nullable_string(header.client_id) + tagged


def response_header_format(api_key: int, version: int) -> str:
    return "ix" if is_flexible(api_key, version) and api_key != _API_VERSIONS else "i"


def decode_response_header(buffer: memoryview, api_key: int, version: int) -> tuple[int, int]:
    """Return the correlation id of a response's frame, and the next position."""
    try:
        (correlation_id,) = _unpack_correlation_id(buffer)
        if response_header_format(api_key, version) == "i":
            return correlation_id, 4
        return correlation_id, skip_tagged(buffer, 4)
    except (struct.error, IndexError):
        raise WireError("a response's header is cut off") from None


def skip_tagged(buffer: memoryview, position: int) -> int:
    count = buffer[position]
    return read_tagged(buffer, position + 1, count, None, {}, _TAGGED_MAX)[0] if count else position + 1


def _nullable_string(value: str | None) -> bytes:
    if value is None:
        return _pack_length(-1)
    raw = value.encode()
    if len(raw) > 0x7FFF:
        raise EncodingError(f"a client id of {len(raw)} bytes")
    return _pack_length(len(raw)) + raw
