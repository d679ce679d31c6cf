"""Checks that a change was sent by the page itself, and not by a page of another site through the visitor's browser.

Browsers say where a request comes from, by Sec-Fetch-Site and Origin. Besides, a form carries a token that only the
page shows, and a body in JSON has a content type that no form can send.
"""

from __future__ import annotations

import hmac
import os
from typing import Final
from urllib.parse import urlsplit

import attrs
from twisted.web.server import Request

from pylogbroker.web.query import BadQuery, Query
from pylogbroker.web.visitors import NotServed

TOKEN: Final = "form_token"
_SECRET_BYTES: Final = 32


@attrs.frozen(eq=False)
class FormTokens:
    """Tokens of principals; they hold until the broker stops."""

    _secret: bytes = attrs.field(factory=lambda: os.urandom(_SECRET_BYTES), repr=False, init=False)

    def token(self, principal: str) -> str:
        return hmac.new(self._secret, principal.encode(), "sha256").hexdigest()

    def check(self, principal: str, token: str) -> None:
        """Raise NotServed for a token that this broker has not made for the principal."""
        if not hmac.compare_digest(self.token(principal).encode(), token.encode()):
            raise NotServed(403, "the form is out of date: load the page again, and repeat the change")


def check_origin(request: Request) -> None:
    """Raise NotServed for a request that a page of another site sent."""
    origin = request.getHeader("origin")
    is_foreign = origin is not None and urlsplit(origin).netloc.lower() != (request.getHeader("host") or "").lower()
    if is_foreign or request.getHeader("sec-fetch-site") not in (None, "same-origin", "none"):
        raise NotServed(403, "a page of another site sent this change")


def form_of(request: Request, bytes_max: int) -> Query:
    """Return the fields of a form as they were typed; raise NotServed or BadQuery."""
    if _content_type(request) != "application/x-www-form-urlencoded":
        raise NotServed(415, "expected a form, application/x-www-form-urlencoded")
    return Query.of(request, bytes_max).with_line_feeds()


def json_of(request: Request) -> Query:
    """Return the fields of a body in JSON; raise NotServed or BadQuery."""
    if _content_type(request) != "application/json":
        raise NotServed(415, "expected application/json")
    if request.content is None:
        raise BadQuery("the body is missing")
    request.content.seek(0)
    return Query.of_json(request.content.read())


def _content_type(request: Request) -> str:
    return (request.getHeader("content-type") or "").partition(";")[0].strip().lower()
