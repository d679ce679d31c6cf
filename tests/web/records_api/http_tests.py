"""Requests to the records API of a node, on connections without sockets."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from pylogbroker.records import Record, build
from tests.web.test_request_bodies import chunk
from tests.web.test_site import Answer, Connection, HalfClosable, unchunked
from tests.web.test_views import NOW, ViewTests

NDJSON = "application/x-ndjson"
PATH = "/api/topics/clicks/records"


class HttpTests(ViewTests):
    def opened(self) -> Connection:
        here = IPv4Address("TCP", self.address, 9464)
        connection = Connection(self.factory, HalfClosable(here, IPv4Address("TCP", self.address, 40000)))
        self.addCleanup(connection.protocol.connectionLost, Failure(ConnectionDone()))  # ends what waits for its bytes
        return connection

    def request(self, method: str, path: str, body: bytes = b"", content_type: str = "", **headers: str) -> Answer:
        """Return the answer to a request, after the time that it takes."""
        connection = self.opened()
        connection.protocol.dataReceived(request_of(method, path, body, content_type, **headers))
        for _ in range(3):
            self.node.clock.advance(0)
        return answer_of(connection)

    def post(self, body: Any, path: str = PATH, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, data, "application/json", **headers)

    def post_lines(self, *lines: Any, path: str = PATH, **headers: str) -> Answer:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        return self.request("POST", path, "\n".join(texts).encode(), NDJSON, **headers)

    def read(self, query: str = "", code: int = 200, **headers: str) -> Any:
        answer = self.request("GET", f"{PATH}?{query}", **headers)
        self.assertEqual(answer.code, code, answer.body)
        return json.loads(answer.body)

    def values(self, query: str = "") -> list[Any]:
        return [row["value"] for row in self.read(query)["records"]]

    def append(self, *values: str, partition: int = 0, **batch: Any) -> None:
        records = [Record(number, NOW + number, None, value.encode()) for number, value in enumerate(values)]
        self.node.broker.partitions.find("clicks", partition).append(build(records, **batch), NOW)


class RecordsTests(HttpTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("clicks", partitions=2)


def request_of(method: str, path: str, body: bytes = b"", content_type: str = "", **headers: str) -> bytes:
    """Return a request, whose body is in chunks if it has one; headers have underscores for hyphens."""
    lines = {"Host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if content_type:
        lines["Content-Type"] = content_type
    if body:
        lines["Transfer-Encoding"] = "chunked"
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    content = chunk(body) + b"0\r\n\r\n" if body else b""
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + content


def answer_of(connection: Connection) -> Answer:
    head, _, body = connection.transport.value().decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return Answer(int(first.split()[1]), headers, unchunked(body) if "transfer-encoding" in headers else body)
