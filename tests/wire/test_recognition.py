"""Bytes of other protocols, as their own implementations write them, and what is said of them."""

from __future__ import annotations

import http.client
import io
import ssl
import struct
from typing import Any

import pytest
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from pylogbroker.legacy07.server.connection import describe_kafka_request
from pylogbroker.legacy07.wire import describe_legacy07_request
from pylogbroker.wire.frame_splitter import FrameSplitter
from tests.legacy07 import message_sets


def tls_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="broker")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


class Recorder(io.BytesIO):
    def sendall(self, data: bytes) -> None:
        self.write(data)


def http_request(method: str) -> bytes:
    connection = http.client.HTTPConnection("broker", 9092)
    recorder = Recorder()
    connection.sock = recorder  # type: ignore[assignment]
    connection.request(method, "/topics")
    return recorder.getvalue()


@pytest.mark.parametrize("cut", [4, 5, 100])
def test_tls(cut: int) -> None:
    splitter = FrameSplitter(104_857_600)
    assert splitter.split(tls_hello()[:cut]) == []
    assert "this looks like TLS" in str(splitter.violation)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_http(method: str) -> None:
    splitter = FrameSplitter(104_857_600)
    assert splitter.split(http_request(method)) == []
    assert "this looks like HTTP" in str(splitter.violation)


def test_other_lengths_are_lengths() -> None:
    for length in (-1, 2**31 - 1, 104_857_601, struct.unpack(">i", b"GETS")[0]):
        splitter = FrameSplitter(104_857_600)
        splitter.split(struct.pack(">i", length))
        assert "frame" in str(splitter.violation)


def kafka_frame(request: Any) -> memoryview:
    request.with_header(correlation_id=1, client_id="a-client")
    return memoryview(bytes(request.encode(header=True)))


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (ApiVersionsRequest(version=3, client_software_name="x", client_software_version="1"), "ApiVersions 3"),
        (MetadataRequest(version=1, topics=[]), "Metadata 1"),
        (ListGroupsRequest(version=0), "ListGroups 0"),
    ],
)
def test_a_request_of_kafkas_protocol(request_: Any, name: str) -> None:
    said = describe_kafka_request(kafka_frame(request_))
    assert said is not None
    assert f"{name} of Kafka's protocol, from the client 'a-client'" in said


@pytest.mark.parametrize(
    ("bytes_", "name"),
    [
        (message_sets.produce(b"my_topic", 0, message_sets.ONE), "Produce of topic 'my_topic'"),
        (message_sets.fetch(b"t", 0, 0), "Fetch of topic 't'"),
        (message_sets.offsets(b"t", 0, -1, 10), "Offsets of topic 't'"),
    ],
)
def test_a_request_of_the_simple_protocol(bytes_: bytes, name: str) -> None:
    said = describe_legacy07_request(memoryview(bytes_)[4:])
    assert said is not None
    assert f"({name})" in said


@pytest.mark.parametrize("frame", [b"", b"\0", b"\x7d\0\0\1" + bytes(6), b"\xff" * 50])
def test_other_bytes_are_not_recognized(frame: bytes) -> None:
    assert describe_kafka_request(memoryview(frame)) is None
    assert describe_legacy07_request(memoryview(frame)) is None


@pytest.mark.parametrize(("number", "part_bytes"), [(2, 18), (3, 10)])
def test_a_request_of_very_many_parts_is_not_decoded_for_a_hint(number: int, part_bytes: int) -> None:
    """Decoding it takes a second, in which no other client is served."""
    few, many = (struct.pack(">hh", number, count) + bytes(count * part_bytes) for count in (100, 101))
    assert describe_legacy07_request(memoryview(few)) is not None
    assert describe_legacy07_request(memoryview(many)) is None
