"""Keys of an issuer: read from a file or by HTTP, again, and without effect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from pylogbroker.broker.security.token_keys import TokenKeys
from pylogbroker.errors import ConfigError
from tests.broker.log_lines import logged_lines
from tests.security.tokens import Issuer

URL = "sasl.oauthbearer.jwks.endpoint.url"


def kids(keys: TokenKeys) -> list[str | None]:
    return [each.kid for each in keys.keys]


@contextmanager
def serving(body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/keys" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_file_that_changes(tmp_path: Path) -> None:
    path = tmp_path / "a b.json"
    issuer = Issuer()
    path.write_bytes(issuer.jwks())
    seconds = [0.0]
    keys = TokenKeys(path.as_uri(), TokenKeys.open(path.as_uri(), URL).keys, lambda: seconds[0])
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


def test_http() -> None:
    with serving(Issuer().jwks()) as url:
        assert kids(TokenKeys.open(f"{url}/keys", URL)) == ["rsa", "ec"]
        with pytest.raises(ConfigError, match=rf"{URL}: {url}/other: the keys cannot be read: Not Found"):
            TokenKeys.open(f"{url}/other", URL)
    with pytest.raises(ConfigError, match="the keys cannot be read"):
        TokenKeys.open(f"{url}/keys", URL)
    with serving(b" " * (1024 * 1024 + 1)) as url, pytest.raises(ConfigError, match="more than 1048576 bytes"):
        TokenKeys.open(f"{url}/keys", URL)


def test_what_is_no_url() -> None:
    for url in ("/etc/keys", "ftp://localhost/keys", ""):
        with pytest.raises(ConfigError, match="expected file:///PATH"):
            TokenKeys.open(url, URL)
