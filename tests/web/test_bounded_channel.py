"""Bounds of requests: each one is answered with its reason, and ends the connection."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import Request

from pylogbroker.web.bounded_channel import (
    BODY_SECONDS,
    HEAD_BYTES_MAX,
    HEAD_SECONDS,
    HEADERS_MAX,
    IDLE_SECONDS,
    LINGER_SECONDS,
)
from pylogbroker.web.site import AllowedHosts, CheckedSite
from tests.web.test_request_bodies import HEAD, Opened, Sink, chunk
from tests.web.test_site import Connection, HalfClosable, factory_of

START = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


class Counted(Resource):
    isLeaf = True
    requests = 0

    def render_GET(self, request: Request) -> bytes:
        self.requests += 1
        return b"ok\n"


class Bounded:
    """A connection to a site with one page."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.page = Counted()
        self.transport = HalfClosable()
        self.protocol = Connection(
            factory_of(CheckedSite(self.clock, self.page, AllowedHosts([]))), self.transport
        ).protocol

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.protocol.dataReceived(piece)

    def answer(self) -> tuple[int, Any]:
        """Return status and JSON of the one answer, which closes the connection for writing."""
        head, _, body = self.transport.value().partition(b"\r\n\r\n")
        assert self.transport.value().count(b"HTTP/1.1 ") == 1
        assert b"\r\nConnection: close\r\nContent-Type: application/json\r\n" in head
        assert b"Content-Length: %d" % len(body) in head
        assert self.transport.half_closed
        assert self.page.requests == 0
        return int(head.split()[1]), json.loads(body)


def rejected(*pieces: bytes) -> tuple[int, str]:
    bounded = Bounded()
    bounded.send(*pieces)
    status, document = bounded.answer()
    assert document["status"] == status
    bounded.send(b"more\r\n\r\n" + START + b"\r\n")
    bounded.answer()
    bounded.clock.advance(LINGER_SECONDS)
    assert bounded.transport.aborted
    bounded.protocol.connectionLost(Failure(ConnectionDone()))
    assert bounded.clock.getDelayedCalls() == []
    return status, document["error"]


LONG = b"x" * HEAD_BYTES_MAX


@pytest.mark.parametrize(
    "pieces", [(b"GET /" + LONG + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",), (b"GET /", LONG, LONG)]
)
def test_a_long_request_line_is_414(pieces: tuple[bytes, ...]) -> None:
    assert rejected(*pieces) == (
        414,
        "a request line has at most 16,384 bytes: send long parameters in several requests",
    )


@pytest.mark.parametrize(
    "pieces",
    [
        (START + b"Cookie: " + LONG + b"\r\n\r\n",),
        (START + b"Cookie: ", LONG, LONG),
        (START + b"".join(b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(20)) + b"\r\n",),
    ],
)
def test_long_headers_are_431(pieces: tuple[bytes, ...]) -> None:
    assert rejected(*pieces) == (431, "a request line and headers have at most 16,384 bytes together")


def test_many_headers_are_431() -> None:
    headers = b"".join(b"X-%d: 1\r\n" % number for number in range(HEADERS_MAX))
    assert rejected(START + headers + b"\r\n") == (431, "a request has at most 500 headers")


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\r\n",
        START + b"no colon\r\nA: b\r\n\r\n",
        START + b"Content-Length: much\r\n\r\n",
        START + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        START + b"Transfer-Encoding: chunked\r\n\r\nmuch\r\n",
    ],
)
def test_a_malformed_request_is_400(request_: bytes) -> None:
    status, reason = rejected(request_)
    assert (status, reason.partition(":")[0]) == (400, "this is no request of HTTP/1.1")


def test_a_client_that_waits_for_100_gets_the_rejection_alone() -> None:
    status, _ = rejected(START + b"Content-Length: 100000\r\nExpect: 100-continue\r\n\r\n")
    assert status == 413


def test_a_slow_head_is_408() -> None:
    """Bytes that come now and then give no more time."""
    bounded = Bounded()
    for byte in START[: HEAD_SECONDS - 1]:
        bounded.send(bytes([byte]))
        bounded.clock.advance(1)
    assert bounded.transport.value() == b""
    bounded.clock.advance(1)
    assert bounded.answer() == (408, {"error": "the head of a request has 30 s to arrive", "status": 408})


def test_a_slow_body_is_408() -> None:
    bounded = Bounded()
    bounded.send(START + b"Content-Length: 1000\r\n\r\n")
    for _ in range(BODY_SECONDS):
        bounded.send(b"x")
        bounded.clock.advance(1)
    assert bounded.answer() == (408, {"error": "the body has not arrived within 60 s", "status": 408})


def test_a_body_that_is_handled_while_it_arrives_may_be_slow() -> None:
    opened = Opened(Sink())
    opened.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(20):
        opened.send(chunk(b"x"))
        opened.clock.advance(IDLE_SECONDS - 1)
    opened.send(b"0\r\n\r\n")
    assert opened.received.endswith(b"done")


def test_a_malformed_chunk_ends_what_is_handled_already() -> None:
    opened = Opened(Sink())
    opened.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"x") + b"much\r\n")
    assert (opened.received, opened.transport.aborted) == (b"", True)


def test_connections_are_kept_between_requests() -> None:
    """Time begins with each request, and one that sends nothing is closed without an answer."""
    bounded = Bounded()
    for number in range(1, 4):
        bounded.clock.advance(IDLE_SECONDS - 1)
        bounded.send(START, b"\r\n")
        assert bounded.transport.value().count(b"200 OK") == number
    bounded.send((START + b"\r\n") * 2)
    assert bounded.transport.value().count(b"200 OK") == 5
    bounded.clock.advance(IDLE_SECONDS - 1)
    assert not bounded.transport.disconnecting
    bounded.clock.advance(1)
    assert bounded.transport.disconnecting
    assert bounded.transport.value().count(b"HTTP/1.1") == 5


def test_the_longest_head_is_served() -> None:
    bounded = Bounded()
    used = len(START) - 2 * 2 + len(b"Cookie: ")
    bounded.send(START + b"Cookie: " + b"x" * (HEAD_BYTES_MAX - used) + b"\r\n\r\n")
    assert bounded.transport.value().count(b"200 OK") == 1
