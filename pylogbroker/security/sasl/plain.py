"""PLAIN (RFC 4616): one message, `authorization NUL user NUL password`."""

from __future__ import annotations

import attrs

from pylogbroker.security.sasl.authentication import AuthenticationFailed
from pylogbroker.security.sasl.users import Users

_PARTS = 3


@attrs.define
class PlainServer:
    _users: Users
    user: str | None = None
    expires_ms: int | None = None
    by_token: bool = False

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the client's only message; raise AuthenticationFailed."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationFailed("the message is not UTF-8") from None
        if len(parts) != _PARTS:
            raise AuthenticationFailed("the message has not three parts")
        authorization, name, password = parts
        if not (name and password):
            raise AuthenticationFailed("the user or the password is empty")
        if not self._users.check(name, password):
            raise AuthenticationFailed("the user or the password is wrong")
        if authorization not in ("", name):
            raise AuthenticationFailed("the client asks to be another user")
        self.user = name
        return b""
