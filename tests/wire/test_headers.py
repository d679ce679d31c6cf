"""Headers of requests and responses, and whole frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest as TheirFetchRequest
from kafka.protocol.consumer import FetchResponse as TheirFetchResponse
from kafka.protocol.metadata import ApiVersionsResponse as TheirApiVersionsResponse

from pylogbroker.wire import (
    EncodingError,
    RequestHeader,
    WireError,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    request_codec,
    response_codec,
)
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse

REQUEST_HEADERS = {
    "0000 0003 00000007 0002 6d65": RequestHeader(0, 3, 7, "me"),
    "0000 0003 00000007 ffff": RequestHeader(0, 3, 7, None),
    "0000 0003 00000007 0000": RequestHeader(0, 3, 7, ""),
    "0000 0009 00000007 0002 6d65 00": RequestHeader(0, 9, 7, "me"),
    "0012 0003 ffffffff ffff 00": RequestHeader(18, 3, -1, None),
    "0012 0063 00000001 0001 78 00": RequestHeader(18, 99, 1, "x"),  # a version yet unknown
    "002f 0000 00000001 0001 78": RequestHeader(47, 0, 1, "x"),  # never flexible
    "0007 0000 00000007": RequestHeader(7, 0, 7, None),  # the one without a client id
    "0007 0001 00000007 0001 78": RequestHeader(7, 1, 7, "x"),
    "0007 0003 00000007 0001 78 00": RequestHeader(7, 3, 7, "x"),
    "03e7 0000 00000007 0001 78": RequestHeader(999, 0, 7, "x"),  # an API that nobody knows
}


@pytest.mark.parametrize("written", REQUEST_HEADERS)
def test_request_headers(written: str) -> None:
    encoded, header = bytes.fromhex(written), REQUEST_HEADERS[written]
    assert encode_request_header(header) == encoded
    assert decode_request_header(memoryview(encoded + b"rest")) == (header, len(encoded))
    for end in range(len(encoded)):
        with pytest.raises(WireError):
            decode_request_header(memoryview(encoded[:end]))


def test_tagged_fields_of_headers_are_skipped() -> None:
    encoded = memoryview(bytes.fromhex("0000 0009 00000007 ffff 02 00 01 ff 05 00 99"))
    assert decode_request_header(encoded) == (RequestHeader(0, 9, 7, None), len(encoded) - 1)
    encoded = memoryview(bytes.fromhex("00000007 01 05 02 ffff 99"))
    assert decode_response_header(encoded, 0, 9) == (7, len(encoded) - 1)


@pytest.mark.parametrize("written", ["0000 0003 00000007 0002 c328", "0000 0009 00000007 ffff 02 00 01 ff 00 01 ff"])
def test_impossible_request_headers(written: str) -> None:
    with pytest.raises(WireError):
        decode_request_header(memoryview(bytes.fromhex(written)))


@given(st.binary(max_size=30))
def test_noise_is_a_header_or_an_error(noise: bytes) -> None:
    try:
        _, position = decode_request_header(memoryview(noise))
    except WireError:
        return
    assert position <= len(noise)


def test_a_client_id_that_is_too_long() -> None:
    with pytest.raises(EncodingError):
        encode_request_header(RequestHeader(0, 3, 7, "x" * (1 << 15)))


@pytest.mark.parametrize(
    ("key", "version", "written"),
    [
        (0, 8, "00000007"),
        (0, 9, "00000007 00"),
        (18, 0, "00000007"),
        (18, 4, "00000007"),
        (999, 9, "00000007"),
    ],
)
def test_response_headers(key: int, version: int, written: str) -> None:
    encoded = bytes.fromhex(written)
    assert decode_response_header(memoryview(encoded + b"\1"), key, version) == (7, len(encoded))
    for end in range(len(encoded)):
        with pytest.raises(WireError):
            decode_response_header(memoryview(encoded[:end]), key, version)


@pytest.mark.parametrize("version", [0, 11, 12])
def test_frames_match_a_peers(version: int) -> None:
    theirs = TheirFetchRequest(version=version, max_wait_ms=5, topics=[], forgotten_topics_data=[])
    theirs.with_header(correlation_id=7, client_id="me")
    ours = request_codec(1, version).frame(7, "me", FetchRequest(max_wait_ms=5))
    assert b"".join(ours) == theirs.encode(version=version, header=True, framed=True)

    answer = b"".join(response_codec(1, version).frame(7, FetchResponse(responses=[])))
    decoded = TheirFetchResponse.decode(answer, version=version, header=True, framed=True)
    assert (decoded.header.correlation_id, decoded.responses) == (7, [])


@pytest.mark.parametrize("version", range(5))
def test_the_header_before_api_versions_is_never_flexible(version: int) -> None:
    answer = b"".join(response_codec(18, version).frame(7, ApiVersionsResponse(0, [ApiVersion(0, 0, 11)])))
    decoded = TheirApiVersionsResponse.decode(answer, version=version, header=True, framed=True)
    assert decoded.header.correlation_id == 7
    assert [(api.api_key, api.max_version) for api in decoded.api_keys] == [(0, 11)]


def test_headers_of_an_api_flexible_from_version_0_have_tagged_fields() -> None:
    frame = bytes.fromhex("003c 0000 00000007 0001 63 00".replace(" ", ""))  # DescribeCluster 0, client id "c"
    header, position = decode_request_header(memoryview(frame))
    assert (header.client_id, position) == ("c", len(frame))
    assert encode_request_header(header) == frame
    assert decode_response_header(memoryview(bytes.fromhex("0000000700")), 60, 0) == (7, 5)
