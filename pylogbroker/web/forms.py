"""Checks that a change was sent by the page itself, and not by a page of another site through the visitor's browser.

Browsers say where a request comes from, by Sec-Fetch-Site and Origin. Besides, a form carries a token that only the
page shows, and a body in JSON has a content type that no form can send.
"""

from __future__ import annotations

import hmac
import os
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
from twisted.web.server import Request

from pylogbroker.web.router.requests import content_of, content_type_of, members_of, texts_of
from pylogbroker.web.visitors import NotServed

TOKEN: Final = "form_token"
_SECRET_BYTES: Final = 32


@attrs.frozen(eq=False, repr=False)
class FormTokens:
    """Tokens of principals; they hold until the broker stops."""

    _secret: bytes = attrs.field(factory=lambda: os.urandom(_SECRET_BYTES), repr=False, init=False)

    def token(self, principal: str) -> str:
        return hmac.new(self._secret, principal.encode(), "sha256").hexdigest()

    def check(self, principal: str, token: str) -> None:
        """Raise NotServed for a token that this broker has not made for the principal."""
        if not hmac.compare_digest(self.token(principal).encode(), token.encode()):
            raise NotServed(403, "the form is out of date: load the page again, and repeat the change")


def check_origin(request: Request, remedy: str = "") -> None:
    """Raise NotServed for a request that a page of another site sent; `remedy` says how to let such pages in."""
    origin = request.getHeader("origin")
    is_foreign = origin is not None and urlsplit(origin).netloc.lower() != (request.getHeader("host") or "").lower()
    if is_foreign or request.getHeader("sec-fetch-site") not in (None, "same-origin", "none"):
        raise NotServed(403, f"a page of another site sent this{remedy and ': '}{remedy}")


def form_of(request: Request, bytes_max: int) -> dict[str, str]:
    """Return the fields of a form as they were typed; raise NotServed or BadRequest.

    Browsers send \\r\\n between lines whatever was typed.
    """
    if content_type_of(request) != "application/x-www-form-urlencoded":
        raise NotServed(415, "expected a form, application/x-www-form-urlencoded")
    return {name: text.replace("\r\n", "\n") for name, text in texts_of(request, bytes_max).items()}


def json_of(request: Request) -> dict[str, Any]:
    """Return the members of a body in JSON; raise NotServed or BadRequest."""
    if content_type_of(request) != "application/json":
        raise NotServed(415, "expected application/json")
    return members_of(content_of(request))
