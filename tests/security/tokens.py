"""Tokens and the keys that sign them."""

from __future__ import annotations

import base64
import json
from typing import Any

import attrs
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey


def unsecured(**claims: Any) -> str:
    """Return a token that nobody has signed."""
    parts = ({"alg": "none"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts) + "."


@attrs.frozen
class Issuer:
    """Signs tokens with one of its keys."""

    keys: KeySet = attrs.field(
        factory=lambda: KeySet([RSAKey.generate_key(2048, {"kid": "rsa"}), ECKey.generate_key("P-256", {"kid": "ec"})])
    )

    def jwks(self) -> bytes:
        return json.dumps(self.keys.as_dict(private=False)).encode()

    def token(self, kid: str = "rsa", **claims: Any) -> str:
        algorithm = "RS256" if kid == "rsa" else "ES256"
        return jwt.encode({"alg": algorithm, "kid": kid}, claims, self.keys.get_by_kid(kid))


def first_message(token: str, authorization: str = "", **extensions: str) -> bytes:
    """Return the first message of a client."""
    pairs = "".join(f"{name}={text}\1" for name, text in {"auth": f"Bearer {token}", **extensions}.items())
    return f"n,{f'a={authorization}' if authorization else ''},\1{pairs}\1".encode()
