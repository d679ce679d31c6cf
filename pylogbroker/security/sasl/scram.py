"""SCRAM (RFC 5802, RFC 7677), the server's side, without channel binding.

    client first    n,[a=authorization],n=user,r=client nonce[,extensions]
    server first    r=client nonce and server nonce,s=salt,i=iterations
    client final    c=base64 of the first part,r=both nonces[,extensions],p=proof
    server final    v=signature

As in Kafka, names and passwords are not prepared by SASLprep. The extension tokenauth=true says that the user is the
id of a delegation token (KIP-48); other extensions are ignored.

librdkafka before 2.6.1 sends the client's nonce once more before both nonces in its final message. Kafka 3.9 takes any
nonce that ends with both: the proof is over the message as it came.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from secrets import token_urlsafe
from typing import Final

import attrs

from pylogbroker.security.sasl.authentication import AuthenticationFailed
from pylogbroker.security.sasl.users import HASHES, Users, digest

# Possessive: a long message that does not match fails at once, and is not tried again with shorter parts.
_VALUE: Final = r"[^,\0]++"
_NAME: Final = r"(?:[^,=\0]++|=2C|=3D)++"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]++"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]++={_VALUE})*"
_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL: Final = re.compile(
    rf"(?P<unsigned>c=(?P<header>[A-Za-z0-9+/=]++),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/=]++)"
)
_NO_HEADER: Final = b"n,,"  # which Java's clients send even with an authorization


@attrs.frozen
class TokenLogin:
    """A delegation token that a client names: the only user in `users`, which has none if the token is not valid."""

    users: Users
    owner: str
    expires_ms: int | None


FindToken = Callable[[str], TokenLogin]
"""Finds a delegation token by its id; any thread may call it."""


@attrs.frozen
class _Challenged:
    """A client that has got its challenge, the answer to its first message."""

    first: re.Match[str]
    nonce: str
    message: str
    users: Users
    token: TokenLogin | None


@attrs.define
class ScramServer:
    """Answers the two messages of a client; `user` is set after the second.

    Without `_find_token`, no client can connect by a delegation token.
    """

    _users: Users
    _mechanism: str
    _make_nonce: Callable[[], str] = token_urlsafe
    _find_token: FindToken | None = None
    user: str | None = None
    _challenged: _Challenged | None = attrs.field(default=None, init=False)

    @property
    def by_token(self) -> bool:
        return self._challenged is not None and self._challenged.token is not None

    @property
    def expires_ms(self) -> int | None:
        """End of the token that the client logged in with."""
        token = None if self._challenged is None or self.user is None else self._challenged.token
        return None if token is None else token.expires_ms

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the next message; raise AuthenticationFailed."""
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed("the message is not UTF-8") from None
        if self._challenged is not None:
            return self._end(self._challenged, text).encode()
        self._challenged = self._begin(text)
        return self._challenged.message.encode()

    def _begin(self, text: str) -> _Challenged:
        first = _FIRST.fullmatch(text)
        if first is None:
            raise AuthenticationFailed("the first message is malformed, or asks for channel binding")
        if first["authorization"] not in (None, first["name"]):
            raise AuthenticationFailed("the client asks to be another user")
        users, token = self._users, None
        if _names_token(first):
            if self._find_token is None:
                raise AuthenticationFailed("delegation tokens are not enabled")
            token = self._find_token(_user(first))
            users = token.users
        nonce = first["nonce"] + self._make_nonce()
        salt, iterations = users.challenge(self._mechanism, _user(first))
        message = f"r={nonce},s={base64.b64encode(salt).decode()},i={iterations}"
        return _Challenged(first, nonce, message, users, token)

    def _end(self, challenged: _Challenged, text: str) -> str:
        first = challenged.first
        final = _FINAL.fullmatch(text)
        if final is None:
            raise AuthenticationFailed("the final message is malformed")
        if not final["nonce"].endswith(challenged.nonce):
            raise AuthenticationFailed(
                "the nonce of the final message does not end with the broker's: the message is of another login, or "
                "was changed on its way"
            )
        proof = _decoded(final["proof"])
        if _decoded(final["header"]) not in (_NO_HEADER, first["header"].encode()):
            raise AuthenticationFailed("the final message has another header than the first one")
        keys, exists = challenged.users.scram_keys(self._mechanism, _user(first))
        name = HASHES[self._mechanism]
        signed = f"{first['bare']},{challenged.message},{final['unsigned']}".encode()
        signature = hmac.digest(keys.stored_key, signed, name)
        if len(proof) != len(signature):
            raise AuthenticationFailed("the proof is wrong")
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(digest(name, client_key), keys.stored_key)
        if not (is_right and exists):
            raise AuthenticationFailed("the user or the password is wrong")
        self.user = _user(first) if challenged.token is None else challenged.token.owner
        return f"v={base64.b64encode(hmac.digest(keys.server_key, signed, name)).decode()}"


def _user(first: re.Match[str]) -> str:
    return first["name"].replace("=2C", ",").replace("=3D", "=")


def _names_token(first: re.Match[str]) -> bool:
    extensions: dict[str, str] = dict(extension.partition("=")[::2] for extension in first["extensions"].split(","))
    return extensions.get("tokenauth", "").lower() == "true"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed("the final message is not base64") from None
