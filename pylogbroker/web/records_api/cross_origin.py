"""Pages of other sites, which browsers let use the records API if `access.control.allow.origin` names them (CORS).

The settings have the names of Confluent's REST proxy. Without them, no page of another site reads or writes here. An
origin that is named may send the visitor's password along; `*` lets any page in, without one.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import attrs
from twisted.web.server import Request

from pylogbroker.config import BrokerConfig
from pylogbroker.web.forms import check_origin

ANY: Final = "*"
_METHODS: Final = ("GET", "POST", "OPTIONS")
_HEADERS: Final = ("Accept", "Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID")
_PREFLIGHT_SECONDS: Final = 600
_REMEDY: Final = "name its origin, such as https://shop.example, in access.control.allow.origin"


@attrs.frozen
class CrossOriginRules:
    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: BrokerConfig) -> CrossOriginRules:
        return cls(
            tuple(origin.lower().rstrip("/") for origin in config.access_control_allow_origin),
            tuple(method.upper() for method in config.access_control_allow_methods) or _METHODS,
            tuple(config.access_control_allow_headers) or _HEADERS,
        )

    def allows(self, origin: str) -> bool:
        return ANY in self.origins or origin.lower() in self.origins

    def check(self, request: Request) -> None:
        """Raise NotServed for a change that a page sends whose origin is not allowed."""
        origin = request.getHeader("origin")
        if origin is None or not self.allows(origin):
            check_origin(request, _REMEDY)

    def check_page(self, request: Request) -> None:
        """Raise NotServed for a WebSocket of a page whose origin is not allowed: browsers do not check answers."""
        if request.getHeader("origin") is not None:
            self.check(request)

    def mark(self, request: Request) -> None:
        """Let the page that sent a request read the answer, if its origin is allowed."""
        origin = request.getHeader("origin")
        if not self.origins or origin is None or _is_own(request, origin):
            return
        request.setHeader(b"vary", b"Origin")
        if not self.allows(origin):
            return
        named = origin.lower() in self.origins
        request.setHeader(b"access-control-allow-origin", origin.encode() if named else ANY.encode())
        if named:
            request.setHeader(b"access-control-allow-credentials", b"true")

    def mark_preflight(self, request: Request) -> None:
        """Say what the page may send."""
        self.mark(request)
        if request.responseHeaders.hasHeader(b"access-control-allow-origin"):
            request.setHeader(b"access-control-allow-methods", ", ".join(self.methods).encode())
            request.setHeader(b"access-control-allow-headers", ", ".join(self.headers).encode())
            request.setHeader(b"access-control-max-age", b"%d" % _PREFLIGHT_SECONDS)


def _is_own(request: Request, origin: str) -> bool:
    return urlsplit(origin).netloc.lower() == (request.getHeader("host") or "").lower()
