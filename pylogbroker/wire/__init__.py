"""Kafka's protocol: bytes to messages and back. No I/O.

Messages are classes in `pylogbroker.wire.messages`. A codec is a message compiled for one version. A broker uses codecs
like this::

    header, position = decode_request_header(frame)
    request = request_codec(header.api_key, header.api_version).decode(frame, position)
    response = ...
    chunks = response_codec(header.api_key, header.api_version).frame(header.correlation_id, response)

and a client like this::

    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[...])
    chunks = request_codec(0, 9).frame(correlation_id, client_id, request)
    correlation_id, position = decode_response_header(frame, 0, 9)
    response = response_codec(0, 9).decode(frame, position)
"""

from functools import cache
from typing import Any, TypeVar

from pylogbroker.wire.codecs import MessageCodec, RequestCodec, ResponseCodec
from pylogbroker.wire.errors import EncodingError, OtherProtocol, UnsupportedVersion, WireError
from pylogbroker.wire.frame_splitter import FrameSplitter
from pylogbroker.wire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
)
from pylogbroker.wire.messages import SUPPORTED
from pylogbroker.wire.primitives import STRING_BYTES_MAX
from pylogbroker.wire.schema import NO_ID, Buffer, Chunk, Region, Request, Response, Versions, WireMessage

__all__ = [
    "NO_ID",
    "STRING_BYTES_MAX",
    "SUPPORTED",
    "Buffer",
    "Chunk",
    "EncodingError",
    "FrameSplitter",
    "MessageCodec",
    "OtherProtocol",
    "Region",
    "Request",
    "RequestCodec",
    "RequestHeader",
    "Response",
    "ResponseCodec",
    "UnsupportedVersion",
    "Versions",
    "WireError",
    "WireMessage",
    "codec",
    "decode_request_header",
    "decode_response_header",
    "encode_request_header",
    "request_codec",
    "response_codec",
]

M = TypeVar("M", bound=WireMessage)


@cache
def codec(message: type[M], version: int) -> MessageCodec[M]:
    return MessageCodec(message, version)


@cache
def request_codec(api_key: int, version: int) -> RequestCodec[Any]:
    return RequestCodec(_declared(api_key)[0], version)


@cache
def response_codec(api_key: int, version: int) -> ResponseCodec[Any]:
    return ResponseCodec(_declared(api_key)[1], version)


def _declared(api_key: int) -> tuple[type[Request], type[Response]]:
    try:
        return SUPPORTED[api_key]
    except KeyError:
        raise UnsupportedVersion(f"API {api_key} is not known") from None
