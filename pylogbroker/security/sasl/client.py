"""Mechanisms of SASL, the client's side: PLAIN, SCRAM, OAUTHBEARER (RFC 7628).

    mechanism = credentials.start()
    answer = b""
    while (token := mechanism.respond(answer)) is not None:     # raises AuthenticationFailed
        answer = ...                                            # of the server, to this token

A call may take milliseconds, or wait for a token: on a reactor, make it in a thread.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Callable
from hashlib import pbkdf2_hmac
from secrets import token_urlsafe
from typing import Final, Protocol

import attrs

from pylogbroker.interfaces import BearerToken, ITokenProvider
from pylogbroker.security.sasl.authentication import AuthenticationFailed
from pylogbroker.security.sasl.users import HASHES, ITERATIONS_MIN, digest

_CLIENT_ITERATIONS_MAX: Final = 1_000_000  # half a second of work; no server may ask for more
_CHALLENGE: Final = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>\d{1,9})(?:,.*)?"
)
_NO_BINDING: Final = "n,,"
_KVSEP: Final = "\1"
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


class ClientMechanism(Protocol):
    def respond(self, answer: bytes, /) -> bytes | None:
        """Return the message after an answer of the server; None at the end. Raise AuthenticationFailed.

        At first there is no answer: `answer` is empty.
        """


@attrs.define
class PlainClient:
    _user: str
    _password: str = attrs.field(repr=False)
    _is_sent: bool = attrs.field(default=False, init=False)

    def respond(self, answer: bytes) -> bytes | None:
        if self._is_sent:
            return None
        self._is_sent = True
        return f"\0{self._user}\0{self._password}".encode()


@attrs.define
class ScramClient:
    """Proves the password, and checks that the server knows its keys.

    `extensions` are those of the first message, with a comma before each: `,tokenauth=true` of delegation tokens.
    """

    _mechanism: str
    _user: str
    _password: str = attrs.field(repr=False)
    _extensions: str = ""
    _make_nonce: Callable[[], str] = token_urlsafe
    _nonce: str = attrs.field(default="", init=False)
    _bare: str = attrs.field(default="", init=False)
    _signature: bytes | None = attrs.field(default=None, init=False, repr=False)

    def respond(self, answer: bytes) -> bytes | None:
        if not self._bare:
            return self._begin()
        try:
            text = answer.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed("the broker's message of SCRAM is not UTF-8") from None
        if self._signature is None:
            return self._prove(text)
        _verify(text, self._signature)
        return None

    def _begin(self) -> bytes:
        self._nonce = self._make_nonce()
        name = self._user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={self._nonce}{self._extensions}"
        return f"{_NO_BINDING}{self._bare}".encode()

    def _prove(self, challenge: str) -> bytes:
        match = _CHALLENGE.fullmatch(challenge)
        if match is None:
            raise AuthenticationFailed("the broker's first message of SCRAM is malformed")
        if not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise AuthenticationFailed("the broker's nonce does not continue that of the client")
        iterations = int(match["iterations"])
        if not ITERATIONS_MIN <= iterations <= _CLIENT_ITERATIONS_MAX:
            accepted = f"{ITERATIONS_MIN} to {_CLIENT_ITERATIONS_MAX}"
            raise AuthenticationFailed(f"the broker asks for {iterations} iterations of SCRAM; accepted are {accepted}")
        name = HASHES[self._mechanism]
        salted = pbkdf2_hmac(name, self._password.encode(), _decoded(match["salt"]), iterations)
        client_key = hmac.digest(salted, b"Client Key", name)
        unsigned = f"c={base64.b64encode(_NO_BINDING.encode()).decode()},r={match['nonce']}"
        signed = f"{self._bare},{challenge},{unsigned}".encode()
        signature = hmac.digest(digest(name, client_key), signed, name)
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        return f"{unsigned},p={base64.b64encode(proof).decode()}".encode()


def _verify(text: str, signature: bytes) -> None:
    value = text.partition(",")[0]
    if value.startswith("e="):
        raise AuthenticationFailed(f"the broker answers: {value.removeprefix('e=')}")
    if not value.startswith("v=") or not hmac.compare_digest(_decoded(value.removeprefix("v=")), signature):
        raise AuthenticationFailed("the broker does not know the keys of this user: it is not to be trusted")


@attrs.define
class OauthBearerClient:
    """Sends a token. A server that does not take it sends a reason in JSON, and then fails."""

    _provider: ITokenProvider
    reason: str = attrs.field(default="", init=False)
    """Why the server does not take the token."""
    _has_begun: bool = attrs.field(default=False, init=False)

    def respond(self, answer: bytes) -> bytes | None:
        if not self._has_begun:
            self._has_begun = True
            return _bearer_message(self._token())
        if not answer and not self.reason:
            return None
        if self.reason:
            raise AuthenticationFailed(self.reason)
        self.reason = _reason_of(answer)
        return _KVSEP.encode()

    def _token(self) -> BearerToken:
        try:
            token = self._provider.token()
        except Exception as error:
            raise AuthenticationFailed(f"the provider of tokens failed with {type(error).__name__}: {error}") from error
        if not isinstance(token, BearerToken):
            raise AuthenticationFailed("the provider of tokens returned something else than a BearerToken")
        return token


def _bearer_message(token: BearerToken) -> bytes:
    if not _TOKEN.fullmatch(token.value):
        raise AuthenticationFailed("the token has characters that cannot be sent")
    parts = [f"auth=Bearer {token.value}"]
    for name, value in token.extensions.items():
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
            raise AuthenticationFailed(f"the token's extension {name!r} cannot be sent")
        parts.append(f"{name}={value}")
    return f"n,,{_KVSEP}{_KVSEP.join(parts)}{_KVSEP}{_KVSEP}".encode()


def _reason_of(answer: bytes) -> str:
    try:
        content = json.loads(answer)
    except ValueError:
        content = None
    status = content.get("status") if isinstance(content, dict) else None
    return f"the token is rejected: {status}" if isinstance(status, str) else "the token is rejected"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # also of characters outside ASCII
        raise AuthenticationFailed("the broker's message of SCRAM is not base64") from None
