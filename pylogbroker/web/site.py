"""Requests of the HTTP server: Host check, limits, plain errors.

A page of another site may let a browser on this machine send requests here, to its own name with this machine's
address. So only known names are accepted as Host. Addresses are: no site can have them as its name.

A body is short, and complete before its request is handled. On paths that take records, the request is handled from the
first bytes of its body on (`request_bodies`). If the answer is complete earlier than the body, the connection reads on
for some seconds, so that the client gets to see the answer, and is closed then. `bounded_channel` has the other bounds.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any, AnyStr, Final

from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from pylogbroker.web.bounded_channel import IDLE_SECONDS, BoundedChannel
from pylogbroker.web.connections import HttpFactory
from pylogbroker.web.request_bodies import BodyState, StreamedBody
from pylogbroker.web.router.routes import JSON
from pylogbroker.web.texts import answer_text

log = Logger()

BODY_BYTES_MAX: Final = 64 * 1024
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    (b"referrer-policy", b"same-origin"),  # without any, browsers hide the origin of the page's own forms
    (b"x-content-type-options", b"nosniff"),
)


class AllowedHosts:
    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.lower() for name in (*names, "localhost", socket.gethostname()) if name}

    def accept(self, host: str | None) -> bool:
        """Return whether requests for this Host, perhaps with a port, are served."""
        if not host:
            return False
        name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
        return name.lower() in self._names or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class CheckedRequest(Request):
    body_bytes_max = BODY_BYTES_MAX
    site: CheckedSite
    channel: BoundedChannel
    content: BytesIO
    body: StreamedBody
    """The body while it arrives; only of a request that `is_streamed`."""
    is_streamed = False
    _body_bytes = 0
    _has_begun = False
    _is_answered = False

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()  # Twisted's own would be a file for a long body
        self.body = StreamedBody(self.channel.transport)
        if length != 0 and self.channel.site.streams_body_of(self.channel._path.partition(b"?")[0]):
            self.is_streamed = True
        elif length is not None and length > self.body_bytes_max:
            self._take(length)

    def handleContentChunk(self, data: bytes) -> None:
        if self.is_streamed:
            self.body.add(data)
            if not self._has_begun:  # not earlier: the channel answers "Expect: 100-continue" after gotLength
                channel = self.channel
                self._begin(channel._command, channel._path, channel._version)
            return
        self._take(len(data))
        if self._body_bytes <= self.body_bytes_max:
            self.content.write(data)

    def _take(self, size: int) -> None:
        """Answer a request whose body is too long, and close its connection."""
        if self._body_bytes <= self.body_bytes_max < self._body_bytes + size:
            self.channel.reject(413, f"a body has at most {self.body_bytes_max:,} bytes here")
        self._body_bytes += size

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        if self.is_streamed:
            self.body.end()
        if not self._has_begun:
            self._begin(command, path, version)

    def _begin(self, command: bytes, path: bytes, version: bytes) -> None:
        self._has_begun = True
        super().requestReceived(command, path, version)

    def finish(self) -> None:
        if self._disconnected or not self.is_streamed or self.body.state is BodyState.ENDED:
            super().finish()
        elif not self._is_answered:  # the channel's parser may be the caller, and needs the request still
            self._is_answered = True
            self.channel.callLater(0, self._finish_before_body)

    def _finish_before_body(self) -> None:
        if self.finished or self._disconnected:
            return
        if self.body.state is BodyState.OPEN:
            self.body.close()
            self.channel.persistent = False
            self.channel.loseConnection = self.channel.linger  # type: ignore[method-assign]  # which `finish` calls
        super().finish()

    def getHeader(self, key: AnyStr) -> AnyStr | None:
        """Return a header, by a text as text; what is not UTF-8 in it is replaced, since anybody may send it."""
        if isinstance(key, bytes):
            return super().getHeader(key)
        value = super().getHeader(key.encode())
        return None if value is None else value.decode(errors="replace")

    def process(self) -> None:
        self.path = self.path if self.path.startswith(b"/") else b"/"  # Twisted answers * with its version
        super().process()

    def render(self, resrc: Resource) -> None:
        self.responseHeaders.removeHeader(b"server")  # it would name the version of Twisted
        for name, value in _HEADERS:
            self.setHeader(name, value)
        if self.site.hosts.accept(self.getHeader("host")):
            super().render(resrc)
            return
        body = answer_text(self, "this Host is not served: add its name to http.allowed.hosts", 421)
        self.code_message = b"Misdirected Request"  # which Twisted does not know
        self.setHeader(b"content-length", b"%d" % len(body))
        self.write(body)
        self.finish()

    def processingFailed(self, reason: Failure) -> Failure:
        log.failure("a request of {peer} for {path} failed", reason, peer=self.client, path=self.path)
        if self.startedWriting:
            self.channel.loseConnection()
            return reason
        self.responseHeaders.removeHeader(b"server")
        body = answer_text(self, "internal error: see the broker's log", 500)
        self.setHeader(b"content-length", b"%d" % len(body))
        self.write(body)
        self.finish()
        return reason


def _no_path(path: bytes) -> bool:
    return False


def error_as_json(path: bytes, status: int, reason: str) -> tuple[str, bytes]:
    """Return type and content of the answer to a request that breaks a bound."""
    return JSON, json.dumps({"error": reason, "status": status}).encode() + b"\n"


class CheckedSite(Site):
    """`streams_body_of` returns whether requests for a path are handled while their bodies arrive.

    `error_content` is as `error_as_json`.
    """

    noisy = False
    protocol = BoundedChannel  # type: ignore[assignment]  # Twisted's chooses between versions of HTTP

    def __init__(
        self,
        reactor: Any,
        root: Resource,
        hosts: AllowedHosts,
        streams_body_of: Callable[[bytes], bool] = _no_path,
        make_request: Callable[..., CheckedRequest] = CheckedRequest,
        error_content: Callable[[bytes, int, str], tuple[str, bytes]] = error_as_json,
    ) -> None:
        super().__init__(root, requestFactory=make_request, timeout=IDLE_SECONDS, reactor=reactor)
        self.displayTracebacks = False
        self.hosts = hosts
        self.streams_body_of = streams_body_of
        self.error_content = error_content
        self.connections: HttpFactory | None = None

    def startFactory(self) -> None:
        """Start no timer for the access log, which there is not: scrapes and probes come every few seconds."""

    def stopFactory(self) -> None:
        """Do nothing."""

    def log(self, request: object) -> None:
        """Log nothing."""
