"""Keys of an issuer: read from a file or by HTTP, again, and without effect."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer
from threading import Event, Thread

import pytest
from joserfc.jwk import KeySet
from twisted.internet.task import Clock

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.security.token_keys import TokenKeys
from pylogbroker.broker.security.token_validators import TokenValidators
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError
from pylogbroker.security.sasl.signed_tokens import parse_keys
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import Threads
from tests.broker.trees import now
from tests.security.tokens import Issuer
from tests.support.certificates import Certificates, identity

URL = "sasl.oauthbearer.jwks.endpoint.url"


def kids(keys: TokenKeys[KeySet]) -> list[str | None]:
    return [each.kid for each in keys.keys]


@contextmanager
def serving(body: bytes, context: ssl.SSLContext | None = None) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/keys" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http{'' if context is None else 's'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Serve bytes to each connection that sends something."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # the client may have read enough
                self.request.recv(65536)
                self.request.sendall(answer)

    with TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_file_that_changes(tmp_path: Path) -> None:
    path = tmp_path / "a b.json"
    issuer = Issuer()
    path.write_bytes(issuer.jwks())
    seconds = [0.0]
    keys = TokenKeys(path.as_uri(), parse_keys(path.read_bytes(), "keys"), parse_keys, lambda: seconds[0])
    assert kids(keys) == ["rsa", "ec"]
    path.write_text(json.dumps({"keys": [issuer.keys.get_by_kid("ec").as_dict(private=False)]}))
    assert not keys.read_for_unknown()
    assert kids(keys) == ["rsa", "ec"]
    seconds[0] = 10.0
    assert keys.read_for_unknown()
    assert not keys.read_for_unknown()
    assert kids(keys) == ["ec"]
    path.unlink()
    with logged_lines() as lines:
        keys.read_again()
    assert "the former keys of tokens stay: " in lines[0]
    assert kids(keys) == ["ec"]


def test_keys_are_read_over_http() -> None:
    with serving(Issuer().jwks()) as url:
        assert kids(TokenKeys.open(f"{url}/keys", URL, parse_keys)) == ["rsa", "ec"]
        with pytest.raises(ConfigError, match=rf"{URL}: {url}/other: the keys cannot be read: Not Found"):
            TokenKeys.open(f"{url}/other", URL, parse_keys)
    with pytest.raises(ConfigError, match="the keys cannot be read"):
        TokenKeys.open(f"{url}/keys", URL, parse_keys)
    with serving(b" " * (1024 * 1024 + 1)) as url, pytest.raises(ConfigError, match="more than 1048576 bytes"):
        TokenKeys.open(f"{url}/keys", URL, parse_keys)


def test_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The issuer's certificate must be of a known authority, and for its host: else anybody may answer with keys."""

    def context(*hosts: str) -> ssl.SSLContext:
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        found.load_cert_chain(Certificates(tmp_path).file("issuer.pem", identity("issuer", hosts).pem()))
        return found

    body, failed = Issuer().jwks(), "the keys cannot be read: .*certificate verify failed"
    with serving(body, context("127.0.0.1")) as url:
        with pytest.raises(ConfigError, match=failed):
            TokenKeys.open(f"{url}/keys", URL, parse_keys)
        monkeypatch.setenv("SSL_CERT_FILE", Certificates(tmp_path).authority_file)
        assert kids(TokenKeys.open(f"{url}/keys", URL, parse_keys)) == ["rsa", "ec"]
    with (
        serving(body, context("other.example.org")) as url,
        pytest.raises(ConfigError, match=f"{failed}: IP address mismatch"),
    ):
        TokenKeys.open(f"{url}/keys", URL, parse_keys)


@pytest.mark.parametrize(
    "answer",
    [
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
        b"HTTP/1.1 200 OK\r\n" * 100_000,
        b"",
    ],
)
def test_an_answer_that_is_no_http_keeps_the_former_keys(answer: bytes) -> None:
    with answering(answer) as url:
        keys = TokenKeys(url, b"former", lambda text, where: text)
        with logged_lines() as lines:
            keys.read_again()
            with pytest.raises(ConfigError, match="the keys cannot be read"):
                TokenKeys.open(url, URL, parse_keys)
    assert keys.keys == b"former"
    assert "the former keys of tokens stay: " in lines[0]


def test_any_error_keeps_the_former_keys(tmp_path: Path) -> None:
    """The next reading may succeed."""
    path = tmp_path / "keys"
    path.write_text("next")
    broken = [True]

    def parse(text: bytes, where: str) -> bytes:
        if broken:
            raise LookupError(broken.pop())
        return text

    keys = TokenKeys(path.as_uri(), b"former", parse)
    with logged_lines() as lines:
        keys.read_again()
    assert keys.keys == b"former"
    assert "the former ones stay" in lines[0]
    keys.read_again()
    assert keys.keys == b"next"


def test_invalid_urls_are_rejected() -> None:
    for url in ("/etc/keys", "ftp://localhost/keys", ""):
        with pytest.raises(ConfigError, match="expected file:///PATH"):
            TokenKeys.open(url, URL, parse_keys)


def test_only_one_thread_waits_for_a_slow_issuer(tmp_path: Path) -> None:
    """Others get their answer while it reads: they find no lock to wait for."""
    path = tmp_path / "keys"
    path.write_text("first")
    seconds, began, goes_on = [0.0], Event(), Event()

    def parse(text: bytes, where: str) -> bytes:
        began.set()
        assert goes_on.wait(300)
        return text

    keys = TokenKeys(path.as_uri(), b"none", parse, lambda: seconds[0])
    seconds[0] = 10.0
    read: list[bool] = []
    reader = Thread(target=lambda: read.append(keys.read_for_unknown()))
    reader.start()
    assert began.wait(120)
    seconds[0] = 30.0  # the former reading is long ago
    others = [Thread(target=lambda: read.append(keys.read_for_unknown()), daemon=True) for _ in range(3)]
    for each in others:
        each.start()
    for each in others:
        each.join(60)
    assert read == [False] * 3
    assert keys.keys == b"none"
    goes_on.set()
    reader.join()
    assert read == [False] * 3 + [True]
    assert keys.keys == b"first"


def test_keys_that_cannot_be_used_are_named_once(tmp_path: Path) -> None:
    """They are read again for a token of an unknown key, which anybody can send."""
    path = tmp_path / "keys"
    known = json.loads(Issuer().jwks())["keys"]
    path.write_text(json.dumps({"keys": [*known, {**known[1], "crv": "P-999"}]}))
    config = BrokerConfig(
        {"listeners": "SASL_SSL://localhost:9093", "log.dirs": "unused", URL: path.as_uri()},
    )
    clock = Clock()
    validators = TokenValidators(Runtime.on(clock, Threads(), Threads()))
    with logged_lines() as lines:
        now(validators.open(config, config.listeners[0]))
        clock.pump([3600.0] * 3)
        assert lines == [f"{path.as_uri()}: 1 of 3 keys are damaged or of unknown kinds, and not used: EC P-999"]
        path.write_text(json.dumps({"keys": [*known, {"kty": "new"}]}))
        clock.advance(3600)
    assert len(lines) == 2
    validators.stop()
