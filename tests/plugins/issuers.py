"""An issuer of tokens on a loopback address, by HTTP or HTTPS, with answers that the test gives."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import attrs

from pylogbroker.security.tls.contexts import server_context
from tests.security.engines import with_key


@attrs.define
class TokenIssuer:
    """Gives the answers in turn, the last one again and again: a status, and JSON or a place to go to."""

    url: str = ""
    answers: list[tuple[int, Any]] = attrs.field(factory=list)
    asked: list[tuple[str, dict[str, list[str]]]] = attrs.field(factory=list)
    """The header Authorization, and the form, of each request."""

    def give(self, *answers: tuple[int, Any]) -> None:
        self.answers[:] = answers


@contextmanager
def token_issuer(*, tls: bool = False) -> Iterator[TokenIssuer]:
    issuer = TokenIssuer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            issuer.asked.append((self.headers["Authorization"], form))
            status, answer = issuer.answers[0]
            del issuer.answers[: len(issuer.answers) > 1]
            body = json.dumps(answer).encode()
            self.send_response(status)
            if status in (302, 307):
                self.send_header("Location", answer)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            issuer.asked.append((self.headers["Authorization"], {}))
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls:
            server.socket = server_context(with_key()).wrap_socket(server.socket, server_side=True)
        issuer.url = f"{'https' if tls else 'http'}://localhost:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
