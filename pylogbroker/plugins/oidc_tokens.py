"""The token provider `oidc`: tokens of an issuer, by OAuth 2.0's grant of client credentials (RFC 6749, 4.4).

| setting                                    | meaning                                     |
|--------------------------------------------|---------------------------------------------|
| `sasl.oauthbearer.token.endpoint.url`      | where to ask, by HTTPS or HTTP              |
| `sasl.oauthbearer.client.id` and `.secret` | the client, as the issuer knows it          |
| `sasl.oauthbearer.scope`                   | what the token is for, if the issuer asks   |
| `https.ca.location`, `https.ca.pem`        | authorities that the issuer's HTTPS is of   |

A token is kept for four fifths of its life, as in Java's client, and serves all connections. If the issuer does not
answer then, the token serves until it expires.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from threading import Lock
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import BearerToken, ITokenProvider, ITokenProviderFactory

_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_CLIENT: Final = "sasl.oauthbearer.client.id"
_SECRET: Final = "sasl.oauthbearer.client.secret"  # the setting's name
_SCOPE: Final = "sasl.oauthbearer.scope"
_TIMEOUT: Final = "socket.connection.setup.timeout.ms"
_CA: Final = "https.ca.location"
_CA_TEXT: Final = "https.ca.pem"
_BYTES_MAX: Final = 1024 * 1024
_KEPT: Final = 0.8
_TIMEOUT_SHARE: Final = 0.8  # the rest of the time is for the authentication itself
_BACKOFF_SECONDS: Final = 0.1
_BACKOFF_SECONDS_MAX: Final = 1.0
_FIRST_SERVER_ERROR: Final = 500


class TokenFailed(Exception):
    """The issuer gave no token."""


class _NoRedirects(HTTPRedirectHandler):
    """Follows none: another server must not get the client's secret."""

    def redirect_request(self, *_: Any) -> None:
        return None


@attrs.frozen
class _Fetched:
    token: BearerToken
    until: float
    """Time of the clock at which another token is to be fetched."""
    expires: float


@implementer(ITokenProvider)
@attrs.define(eq=False, repr=False)
class OidcTokens:
    """Fetches tokens; threads that need one at the same time wait for the same."""

    _request: Request = attrs.field(repr=False)
    _opener: OpenerDirector = attrs.field(repr=False)
    _seconds_max: float
    _clock: Callable[[], float] = time.time
    _sleep: Callable[[float], None] = time.sleep
    _fetched: _Fetched | None = attrs.field(default=None, init=False, repr=False)
    _lock: Lock = attrs.field(factory=Lock, init=False, repr=False)

    def token(self) -> BearerToken:
        with self._lock:
            now, kept = self._clock(), self._fetched
            if kept is not None and now < kept.until:
                return kept.token
            try:
                self._fetched = _parse(self._ask(now + self._seconds_max), now)
            except TokenFailed:
                if kept is None or now >= kept.expires:
                    raise
                return kept.token
            return self._fetched.token

    def _ask(self, deadline: float) -> bytes:
        """Return the issuer's answer; ask again while it cannot be reached, or has an error of its own."""
        backoff = _BACKOFF_SECONDS
        while True:
            try:
                with self._opener.open(self._request, timeout=max(deadline - self._clock(), 0.1)) as answer:
                    body: bytes = answer.read(_BYTES_MAX)
                    return body
            except HTTPError as error:
                failure = TokenFailed(f"{self._request.full_url} answers {error.code}{_reason(error)}")
                if error.code < _FIRST_SERVER_ERROR:
                    raise failure from None
            except (OSError, HTTPException) as error:
                why = error.reason if isinstance(error, URLError) else error
                failure = TokenFailed(f"{self._request.full_url}: {why}")
            if self._clock() + backoff >= deadline:
                raise failure
            self._sleep(backoff)
            backoff = min(2 * backoff, _BACKOFF_SECONDS_MAX)


def _parse(body: bytes, now: float) -> _Fetched:
    """Return the token of an answer; its end is its claim `exp`, or else what the answer says."""
    try:
        answer = json.loads(body)
        value = answer["access_token"]
        seconds = answer.get("expires_in")
    except (ValueError, LookupError, TypeError, AttributeError):
        value = seconds = None
    if not isinstance(value, str) or not value:
        raise TokenFailed("the issuer's answer has no access_token")
    expires = _expiry(value)
    if expires is None:
        expires = now + seconds if isinstance(seconds, int | float) else now
    return _Fetched(BearerToken(value), now + (expires - now) * _KEPT, expires)


def _expiry(token: str) -> float | None:
    """Return the claim `exp` of a JWT; None if there is none that can be read."""
    try:
        claims = token.split(".")[1]
        expiry = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
    except (ValueError, LookupError, TypeError):
        return None
    return float(expiry) if isinstance(expiry, int | float) else None


def _reason(error: HTTPError) -> str:
    """Return the error that OAuth 2.0's answers name (RFC 6749, 5.2), behind a colon."""
    try:
        code = json.loads(error.read(_BYTES_MAX))["error"]
    except (OSError, ValueError, LookupError, TypeError, HTTPException):
        return ""
    return f": {code}" if isinstance(code, str) and code.isprintable() else ""


@implementer(IPlugin, ITokenProviderFactory)
@attrs.frozen
class OidcTokensFactory:
    name: str = "oidc"

    def make(self, argument: str, settings: Mapping[str, object]) -> ITokenProvider:
        if argument:
            raise ValueError("oidc takes no argument: see sasl.oauthbearer.token.endpoint.url")
        url, client, secret = (_required(settings, name) for name in (_URL, _CLIENT, _SECRET))
        if urlsplit(url).scheme not in ("https", "http") or not urlsplit(url).netloc:
            raise ValueError(f"{_URL}: expected https://... or http://...")
        form = {"grant_type": "client_credentials"}
        if scope := settings.get(_SCOPE):
            form["scope"] = str(scope)
        login = base64.b64encode(f"{client}:{secret}".encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
        request = Request(url, urlencode(form).encode(), headers)
        opener = build_opener(_NoRedirects(), HTTPSHandler(context=_context(settings)))
        timeout = settings.get(_TIMEOUT)
        return OidcTokens(request, opener, (timeout if isinstance(timeout, int) else 10_000) / 1000 * _TIMEOUT_SHARE)


def _required(settings: Mapping[str, object], name: str) -> str:
    value = settings.get(name)
    if not value:
        raise ValueError(f"{name}: expected a value")
    return str(value)


def _context(settings: Mapping[str, object]) -> ssl.SSLContext:
    path, text = settings.get(_CA), settings.get(_CA_TEXT)
    try:
        return ssl.create_default_context(
            cafile=str(path) if path else None, cadata=str(text) if text and not path else None
        )
    except (OSError, ValueError) as error:
        raise ValueError(f"{_CA if path else _CA_TEXT}: {error}") from None


oidc_tokens = OidcTokensFactory()
