"""Bodies that are taken while they arrive: order, back-pressure, and answers that come before the end."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from pylogbroker.web.bounded_channel import IDLE_SECONDS, LINGER_SECONDS
from pylogbroker.web.request_bodies import WAITING_BYTES_MAX, StreamedBody
from pylogbroker.web.site import AllowedHosts, CheckedRequest, CheckedSite
from tests.web.test_site import Connection, HalfClosable, factory_of

HEAD = b"POST /sink HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


class Sink(Resource):
    """Answers with the body, or at once after some pieces."""

    isLeaf = True

    def __init__(self, pieces_max: int = 1000) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self._pieces_max = pieces_max

    def render_POST(self, request: CheckedRequest) -> int:
        ensureDeferred(self._answer(request))
        return NOT_DONE_YET

    async def _answer(self, request: CheckedRequest) -> None:
        assert request.body is not None
        while len(self.pieces) < self._pieces_max and (data := await request.body.take()):
            self.pieces.append(data)
        request.setHeader(b"content-length", b"4")
        request.write(b"done")
        request.finish()


class Opened:
    """A connection to a site that streams bodies to a sink."""

    def __init__(self, sink: Sink) -> None:
        self.clock = Clock()
        self.transport = HalfClosable()
        site = CheckedSite(self.clock, sink, AllowedHosts([]), lambda path: path == b"/sink")
        self.protocol = Connection(factory_of(site), self.transport).protocol

    def send(self, data: bytes) -> None:
        self.protocol.dataReceived(data)

    @property
    def received(self) -> bytes:
        return self.transport.value()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_pieces_are_taken_as_they_arrive() -> None:
    sink = Sink()
    opened = Opened(sink)
    opened.send(CHUNKED)
    assert sink.pieces == []
    opened.send(chunk(b"one"))
    opened.send(chunk(b"two") + chunk(b"three"))
    assert b"".join(sink.pieces) == b"onetwothree"
    assert opened.received == b""
    opened.send(b"0\r\n\r\n")
    assert opened.received.endswith(b"\r\n\r\ndone")
    opened.send(HEAD + b"Content-Length: 2\r\n\r\nok")
    assert opened.received.count(b"200 OK") == 2


def test_a_client_that_waits_for_100_gets_it_first() -> None:
    opened = Opened(Sink(0))
    opened.send(HEAD + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert opened.received == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_the_connection_is_paused_while_pieces_wait() -> None:
    transport = StringTransport()
    body = StreamedBody(transport)
    body.add(bytes(WAITING_BYTES_MAX))
    assert transport.producerState == "producing"
    body.add(b"x")
    assert transport.producerState == "paused"
    taken = ensureDeferred(body.take())
    assert len(taken.result) == WAITING_BYTES_MAX + 1
    assert transport.producerState == "producing"


def test_a_whole_body_is_bounded() -> None:
    body = StreamedBody(StringTransport())
    whole: Any = ensureDeferred(body.take_all(10))
    for _ in range(5):
        body.add(b"123")
    assert whole.result is None


@pytest.mark.parametrize("head", [CHUNKED + chunk(b"one"), HEAD + b"Content-Length: 1000\r\n\r\none"])
def test_an_answer_before_the_end_is_sent_and_the_rest_is_dropped(head: bytes) -> None:
    sink = Sink(1)
    opened = Opened(sink)
    opened.send(head)
    assert not opened.transport.half_closed
    opened.clock.advance(0)
    assert opened.received.endswith(b"\r\n\r\ndone")
    assert opened.transport.half_closed
    opened.send(b"more" * 1000)
    assert sink.pieces == [b"one"]
    assert not opened.transport.aborted
    opened.clock.advance(LINGER_SECONDS)
    assert opened.transport.aborted


def test_a_body_that_ends_with_the_early_answer_leaves_the_connection() -> None:
    opened = Opened(Sink(1))
    opened.send(CHUNKED + chunk(b"one") + b"0\r\n\r\n")
    opened.clock.advance(0)
    assert opened.received.endswith(b"done")
    assert not opened.transport.half_closed
    opened.send(HEAD + b"Content-Length: 2\r\n\r\nok")
    assert opened.received.count(b"200 OK") == 2


def test_a_lost_connection_leaves_no_timer() -> None:
    opened = Opened(Sink(1))
    opened.send(CHUNKED + chunk(b"one"))
    opened.clock.advance(0)
    opened.protocol.connectionLost(Failure(ConnectionDone()))
    assert opened.clock.getDelayedCalls() == []


def test_a_body_that_stops_arriving_ends_the_connection() -> None:
    opened = Opened(Sink())
    opened.send(CHUNKED + chunk(b"one"))
    opened.clock.advance(IDLE_SECONDS - 1)
    assert not opened.transport.disconnecting
    opened.clock.advance(2)
    assert opened.transport.disconnecting
