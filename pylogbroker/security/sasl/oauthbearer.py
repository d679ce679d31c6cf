"""OAUTHBEARER (RFC 7628), the server's side: a token is shown, and checked.

    client   n,[a=authorization],^A auth=Bearer token ^A [key=value ^A]... ^A
    server   nothing, if the token is valid; else {"status":"invalid_token"}
    client   ^A, and the authentication fails

As in Kafka, extensions are ignored.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import attrs

from pylogbroker.security.sasl.authentication import AuthenticationFailed

_SECONDS_MAX: Final = 1 << 40
_KVSEP: Final = "\1"
_AUTHORIZATION: Final = re.compile(r"n,(?:a=(?P<authorization>(?:[^,=\0]|=2C|=3D)+))?,")
_PAIR: Final = re.compile(r"(?P<name>[A-Za-z]+)=(?P<value>.*)", re.DOTALL)
_CREDENTIALS: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.A-Za-z0-9]+)")


class InvalidToken(Exception):
    """A token is not accepted; the text is for the broker's log."""

    status = "invalid_token"
    scope: str | None = None


class InsufficientScope(InvalidToken):
    status = "insufficient_scope"

    def __init__(self, scope: str) -> None:
        self.scope = scope
        super().__init__("the token lacks a required scope")


@attrs.frozen
class ValidToken:
    principal: str
    expires_ms: int


class TokenValidator(Protocol):
    def validate(self, token: str, /) -> ValidToken:
        """Check a token; raise InvalidToken. May take a while: call it in a thread."""


@attrs.define
class OAuthServer:
    _validator: TokenValidator
    user: str | None = None
    expires_ms: int | None = None
    by_token: bool = False
    _failure: str = ""

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the next message; raise AuthenticationFailed."""
        if self._failure:
            raise AuthenticationFailed(self._failure)
        authorization, bearer_token = _parsed(token.decode(errors="replace"))
        try:
            valid_token = self._validator.validate(bearer_token)
        except InvalidToken as error:
            self._failure = str(error)
            scope = {} if error.scope is None else {"scope": error.scope}
            return json.dumps({"status": error.status, **scope}, separators=(",", ":")).encode()
        if authorization not in ("", valid_token.principal):
            raise AuthenticationFailed("the client asks to be another user")
        self.user, self.expires_ms = valid_token.principal, valid_token.expires_ms
        return b""


def _parsed(message: str) -> tuple[str, str]:
    """Return the authorization, or "", and the token; raise AuthenticationFailed.

    Anybody may send a message. It is cut once, and no part is looked at twice. One regular expression for the whole
    would take time that grows with the square of the length.
    """
    header, *pairs = message.split(_KVSEP)
    first = _AUTHORIZATION.fullmatch(header)
    if first is None or pairs[-2:] != ["", ""]:
        raise _malformed()
    token = None
    for text in pairs[:-2]:
        pair = _PAIR.fullmatch(text)
        if pair is None:
            raise _malformed()
        if pair["name"] == "auth" and token is None:
            token = pair["value"]
    credentials = None if token is None else _CREDENTIALS.fullmatch(token)
    if credentials is None or credentials["scheme"].lower() != "bearer":
        raise _malformed()
    return (first["authorization"] or "").replace("=2C", ",").replace("=3D", "="), credentials["token"]


def _malformed() -> AuthenticationFailed:
    return AuthenticationFailed("the first message is malformed, or has no bearer token")


@attrs.frozen
class UnsecuredValidator:
    """Accepts tokens that nobody has signed: Kafka's OAuthBearerUnsecuredValidatorCallbackHandler. For tests only."""

    _now_ms: Callable[[], int]
    _principal_claim: str = "sub"
    _scope_claim: str = "scope"
    _required_scope: frozenset[str] = frozenset()
    _skew_ms: int = 0

    def validate(self, token: str) -> ValidToken:
        claims = _unsecured_claims(token)
        principal = claims.get(self._principal_claim)
        if not isinstance(principal, str) or not principal:
            raise InvalidToken(f"the token has no claim {self._principal_claim}")
        now_ms, expires_ms = self._now_ms(), _time_ms(claims, "exp")
        issued_ms, begins_ms = _time_ms(claims, "iat"), _time_ms(claims, "nbf")
        if expires_ms is None:
            raise InvalidToken("the token has no claim exp")
        if now_ms - self._skew_ms >= expires_ms:
            raise InvalidToken("the token has expired")
        if issued_ms is not None and issued_ms > now_ms + self._skew_ms:
            raise InvalidToken("the token was issued in the future")
        if (issued_ms or 0) >= expires_ms or (begins_ms or 0) >= expires_ms:
            raise InvalidToken("the token expires before it is valid")
        if not self._required_scope <= _scope(claims.get(self._scope_claim)):
            raise InsufficientScope(" ".join(sorted(self._required_scope)))
        return ValidToken(principal, expires_ms)


def _unsecured_claims(token: str) -> dict[str, object]:
    parts = token.split(".")
    header, claims = (_decoded(part) for part in parts[:2]) if len(parts) == 3 else (None, None)
    if not isinstance(header, dict) or not isinstance(claims, dict) or header.get("alg") != "none" or parts[2]:
        raise InvalidToken("the token is no unsecured JSON Web Token")
    return claims


def _decoded(part: str) -> object:
    try:
        decoded: object = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None
    return decoded


def _time_ms(claims: Mapping[str, object], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _SECONDS_MAX:
        raise InvalidToken(f"the claim {name} is no time")
    return int(value * 1000)


def _scope(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(scope for scope in value if isinstance(scope, str)) if isinstance(value, list) else frozenset()
