"""Probes of listeners: sockets that answer as they like. tests/clients has brokers."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest

from pylogbroker.blocking import listener_probe
from pylogbroker.blocking.listener_probe import SeenListener, explained, probe
from pylogbroker.rpc.settings import Address


class Server:
    """Sends the same bytes on each connection, and closes it when the client has closed its side, or at once."""

    def __init__(self, answer: bytes, *, closes: bool) -> None:
        self._answer, self._closes = answer, closes
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._socket.getsockname())
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                with connection, suppress(OSError):
                    connection.sendall(self._answer)
                    while not self._closes and connection.recv(4096):
                        pass

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(60)


@pytest.fixture(params=[True, False], ids=["closes", "waits"])
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    monkeypatch.setattr(listener_probe, "_SECONDS", 0.2)
    server = Server(b"", closes=request.param)
    yield server.address
    server.stop()


def answer_of(code: int, *mechanisms: bytes, correlation_id: int = 0) -> bytes:
    """Return an answer to SaslHandshake."""
    body = struct.pack(">ihi", correlation_id, code, len(mechanisms))
    body += b"".join(struct.pack(">h", len(name)) + name for name in mechanisms)
    return struct.pack(">i", len(body)) + body


def probed(answer: bytes) -> SeenListener | None:
    server = Server(answer, closes=False)
    try:
        return probe(server.address)
    finally:
        server.stop()


def test_answers_to_the_handshake() -> None:
    assert probed(answer_of(33, b"PLAIN", b"SCRAM-SHA-512")) == SeenListener(False, ("PLAIN", "SCRAM-SHA-512"))
    assert probed(answer_of(34)) == SeenListener(False, ())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        struct.pack(">i", -1),
        answer_of(33, correlation_id=7),
        answer_of(0, b"PLAIN"),
        struct.pack(">iihi", 10, 0, 33, 1 << 30),
        struct.pack(">iihih", 12, 0, 33, 1, 5),
        struct.pack(">iihih", 12, 0, 33, 1, -2),
        answer_of(33, b"\xff"),
        answer_of(33)[:7],
    ],
)
def test_other_answers_are_of_no_listener(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_probe, "_SECONDS", 0.2)
    assert probed(answer) is None


def test_silence_is_of_no_listener(served: Address) -> None:
    assert probe(served) is None
    assert explained("why", served, "PLAINTEXT") == "why"


@pytest.mark.parametrize(
    ("listener", "protocol", "expected"),
    [
        (SeenListener(False, ()), "PLAINTEXT", "^why$"),
        (SeenListener(True, None), "SASL_SSL", "^why$"),
        (SeenListener(True, ("PLAIN",)), "SASL_SSL", "^why$"),
        (
            SeenListener(False, ()),
            "SASL_SSL",
            "is PLAINTEXT, but security.protocol is SASL_SSL: set security.protocol=P",
        ),
        (
            SeenListener(True, None),
            "PLAINTEXT",
            "is one with TLS, but .*: set security.protocol=SSL or SASL_SSL, ssl.ca",
        ),
        (
            SeenListener(False, ("PLAIN",)),
            "SSL",
            "with PLAIN, but .*=SASL_PLAINTEXT, sasl.mechanism, sasl.username, sasl.",
        ),
        (
            SeenListener(True, ("PLAIN",)),
            "SASL_PLAINTEXT",
            "is SASL_SSL, but .*=SASL_SSL, ssl.ca.location, the file of",
        ),
    ],
)
def test_explanations(listener: SeenListener, protocol: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_probe, "probe", lambda _: listener)
    assert re.search(expected, explained("why", Address("localhost", 9092), protocol))
