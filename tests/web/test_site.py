"""The HTTP server's rules for every request, on connections without sockets."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.server import Request

from pylogbroker.web.connections import HttpFactory
from pylogbroker.web.health import STOPPING, Readiness, put_health
from pylogbroker.web.pages import PageRoot
from pylogbroker.web.site import BODY_BYTES_MAX, AllowedHosts, CheckedSite
from pylogbroker.web.texts import Page
from pylogbroker.web.views import Source
from tests.broker.log_lines import logged_lines

PEER = IPv4Address("TCP", "127.0.0.1", 40000)


class Broken(Page):
    def render_GET(self, request: Request) -> bytes | int:
        raise ValueError("a secret detail")


@attrs.frozen
class Answer:
    code: int
    headers: Mapping[str, str]
    body: str


def unchunked(text: str) -> str:
    """Return a body without the sizes of its chunks."""
    data, parts, place = text.encode(), [], 0
    while (end := data.find(b"\r\n", place)) >= 0:
        size = int(data[place:end], 16)
        parts.append(data[end + 2 : end + 2 + size])
        place = end + 4 + size
    return b"".join(parts).decode()


class HalfClosable(StringTransport):
    """Transport that may be closed for writing alone."""

    half_closed = aborted = False

    def loseWriteConnection(self) -> None:
        self.half_closed = True

    def abortConnection(self) -> None:
        self.aborted = True


class Connection:
    def __init__(self, factory: HttpFactory, transport: StringTransport | None = None) -> None:
        self.transport = transport or HalfClosable()
        protocol = factory.buildProtocol(PEER)
        assert protocol is not None
        self.protocol = protocol
        protocol.makeConnection(self.transport)

    def send(self, data: bytes) -> Answer:
        self.transport.clear()
        self.protocol.dataReceived(data)
        head, _, body = self.transport.value().decode().partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        return Answer(int(first.split()[1]), headers, unchunked(body) if "transfer-encoding" in headers else body)

    def get(self, path: str, host: str = "localhost", method: str = "GET") -> Answer:
        return self.send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


def factory_of(site: CheckedSite, connections_max: int = 10) -> HttpFactory:
    factory = HttpFactory(lambda: None, connections_max)
    factory.serve(site)
    return factory


def served(readiness: Readiness | None = None, connections_max: int = 10) -> HttpFactory:
    root = PageRoot(Source())
    put_health(root, readiness or Readiness(stage=""))
    root.putChild(b"broken", Broken())
    return factory_of(CheckedSite(Clock(), root, AllowedHosts(["broker.example"])), connections_max)


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost:80", 200),
        ("BROKER.example", 200),
        ("10.1.2.3:9464", 200),
        ("[::1]:9464", 200),
        ("attacker.example", 421),
        ("127.0.0.1.attacker.example:80", 421),
        ("[attacker", 421),
        ("", 421),
    ],
)
def test_only_known_names_and_addresses_are_hosts(host: str, code: int) -> None:
    assert Connection(served()).get("/livez", host).code == code


def test_without_a_host_nothing_is_served() -> None:
    connection = Connection(served())
    assert connection.send(b"GET /livez HTTP/1.0\r\n\r\n").code == 421
    assert connection.transport.value().startswith(b"HTTP/1.0 421 Misdirected Request\r\n")


def test_headers_that_are_no_text_are_no_failure() -> None:
    head = b"GET /livez HTTP/1.1\r\nHost: %s\r\nOrigin: \xff\r\nAuthorization: Basic \xff\r\n\r\n"
    assert Connection(served()).send(head % b"localhost").code == 200
    assert Connection(served()).send(head % b"\xff").code == 421


def test_no_answer_names_the_version_of_twisted() -> None:
    answers = [Connection(served()).get(path) for path in ("/livez", "/livez/more", "/", "/nothing", "/api/nothing")]
    answers += [Connection(served()).get("*", method="OPTIONS"), Connection(served()).get("/livez", method="POST")]
    browser = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nAccept: text/html,*/*;q=0.8\r\n\r\n"
    answers.append(Connection(served()).send(browser))
    assert [answer.code for answer in answers] == [200, 404, 503, 404, 404, 405, 405, 404]
    for answer in answers:
        assert "server" not in answer.headers
        assert "twisted" not in answer.body.lower()
        assert answer.headers["x-content-type-options"] == "nosniff"
    kinds = [answer.headers["content-type"].partition(";")[0] for answer in answers]
    plain, html, json = "text/plain", "text/html", "application/json"
    assert kinds == [plain, plain, html, json, json, json, plain, html]
    assert answers[0].body == "alive\n"
    assert Connection(served()).get("/livez", method="HEAD").body == ""


def test_a_failure_is_logged_and_not_shown() -> None:
    with logged_lines() as lines:
        answer = Connection(served()).get("/broken")
    assert (answer.code, answer.body) == (500, "internal error: see the broker's log\n")
    assert "server" not in answer.headers
    assert any("/broken" in line for line in lines)


def test_a_long_body_ends_the_connection() -> None:
    announced = Connection(served(), HalfClosable())
    head = b"POST /livez HTTP/1.1\r\nHost: localhost\r\n"
    answer = announced.send(head + b"Content-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1))
    assert (answer.code, answer.body) == (413, '{"error": "a body has at most 65,536 bytes here", "status": 413}\n')
    assert announced.transport.half_closed
    chunk = b"%x\r\n%s\r\n" % (BODY_BYTES_MAX, bytes(BODY_BYTES_MAX))
    chunked = Connection(served(), HalfClosable())
    assert chunked.send(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk).code == 413
    assert chunked.transport.half_closed
    longest = Connection(served())
    body = bytes(BODY_BYTES_MAX)
    assert longest.send(head + b"Content-Length: %d\r\n\r\n" % len(body) + body).code == 405


def test_connections_are_bounded() -> None:
    factory = served(connections_max=1)
    first = Connection(factory)
    assert factory.buildProtocol(PEER) is None
    first.protocol.connectionLost(Failure(ConnectionDone()))
    assert factory.buildProtocol(PEER) is not None


def test_connections_wait_for_their_site() -> None:
    asked: list[str] = []
    factory = HttpFactory(lambda: asked.append("site"), 10)
    early = [Connection(factory), Connection(factory)]
    assert asked == ["site", "site"]
    assert [connection.transport.producerState for connection in early] == ["paused", "paused"]
    factory.serve(CheckedSite(Clock(), PageRoot(Source()), AllowedHosts([])))
    late = Connection(factory)
    assert asked == ["site", "site"]
    for connection in (*early, late):
        assert connection.transport.producerState == "producing"
        assert connection.get("/topics").code == 503


def test_readiness_has_its_reasons() -> None:
    readiness = Readiness()
    found: list[str] = []
    connection = Connection(served(readiness))
    assert (connection.get("/readyz").code, connection.get("/readyz").body) == (503, "the start is not over\n")
    readiness.check = lambda: found
    readiness.stage = ""
    assert (connection.get("/readyz").code, connection.get("/healthz").body) == (200, "ready\n")
    found += ["one", "another"]
    assert (connection.get("/readyz").code, connection.get("/readyz").body) == (503, "one\nanother\n")
    readiness.stage = STOPPING
    assert connection.get("/readyz").body == "the broker is stopping\n"
    assert connection.get("/livez").code == 200
