"""Signed tokens: JSON Web Tokens (RFC 7519), with the keys of their issuer (RFC 7517).

This module alone needs joserfc.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import attrs
from joserfc import jws, jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import Key, KeySet, import_key

from pylogbroker.errors import ConfigError
from pylogbroker.security.sasl.oauthbearer import InvalidToken, ValidToken

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
"""Those with a public key: one who has the keys of this broker can sign nothing."""

_ERRORS: Final = (JoseError, ValueError, TypeError, KeyError, RecursionError)
"""Errors of joserfc for tokens of anybody."""

_SHOWN_MAX: Final = 20


def parse_keys(text: bytes, where: str, report: Callable[[str], object] = lambda line: None) -> KeySet:
    """Parse a set of keys; raise ConfigError. Report, in one line, the keys that cannot be used."""
    try:
        content: dict[str, Any] = json.loads(text)
        public = [entry for entry in content["keys"] if entry.get("kty") != "oct" and entry.get("use", "sig") == "sig"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{where}: this is no set of public keys (JWKS): {type(error).__name__}") from None
    keys: list[Key] = []
    unknown: set[str] = set()
    for jwk in public:
        try:
            keys.append(import_key(jwk))
        except (ValueError, KeyError, TypeError, AttributeError, JoseError):
            unknown.add(" ".join(str(jwk[name])[:_SHOWN_MAX] for name in ("kty", "crv") if name in jwk))
    kinds = ", ".join(sorted(unknown)[:_SHOWN_MAX])
    if not keys:
        raise ConfigError(f"{where}: this is no set of public keys (JWKS) of known kinds: {kinds or 'it is empty'}")
    if unknown:
        report(
            f"{len(public) - len(keys)} of {len(public)} keys are damaged or of unknown kinds, and not used: {kinds}"
        )
    return KeySet(keys)


class KeySource(Protocol):
    @property
    def keys(self) -> KeySet: ...
    def read_for_unknown(self) -> bool:
        """Read the keys again for a token that none of them fits; return False if that was done lately. Blocks."""


@attrs.frozen
class SignedValidator:
    _source: KeySource
    _now_ms: Callable[[], int]
    _issuer: str | None
    _audience: Sequence[str]
    _principal_claim: str
    _skew_seconds: int

    def validate(self, token: str) -> ValidToken:
        """Check signature and claims; raise InvalidToken. Blocks if the keys have to be read again."""
        claims = self._signed_claims(token)
        now_ms = self._now_ms()
        required: dict[str, Any] = {"exp": {"essential": True}}
        if self._issuer:
            required["iss"] = {"essential": True, "value": self._issuer}
        if self._audience:
            required["aud"] = {"essential": True, "values": list(self._audience)}
        try:
            jwt.JWTClaimsRegistry(now_ms // 1000, self._skew_seconds, **required).validate(claims)
            expires_ms = int(claims["exp"] * 1000)
        except (JoseError, ValueError, TypeError, OverflowError) as error:
            raise InvalidToken(f"a claim of the token is not accepted: {error}") from None
        principal = claims.get(self._principal_claim)
        if not isinstance(principal, str) or not principal:
            raise InvalidToken(f"the token has no claim {self._principal_claim}")
        return ValidToken(principal, expires_ms)

    def _signed_claims(self, token: str) -> dict[str, Any]:
        try:
            header = jws.extract_compact(token.encode()).headers()
        except _ERRORS as error:
            raise InvalidToken(f"this is no signed token: {type(error).__name__}") from None
        decode = self._decoded if header.get("kid") is not None else self._decoded_by_any
        try:
            return decode(token)
        except InvalidKeyIdError:
            if self._source.read_for_unknown():
                with suppress(InvalidKeyIdError):
                    return decode(token)
        raise InvalidToken("no key of the issuer fits the token")

    def _decoded(self, token: str) -> dict[str, Any]:
        """Raise InvalidKeyIdError if the token names another key."""
        try:
            return jwt.decode(token, self._source.keys, _ALGORITHMS).claims
        except InvalidKeyIdError:
            raise
        except _ERRORS as error:
            raise InvalidToken(f"the token is not signed by a key of the issuer: {type(error).__name__}") from None

    def _decoded_by_any(self, token: str) -> dict[str, Any]:
        """Try all keys for a token that names none; raise InvalidKeyIdError if none fits.

        A key that does not fit the token's algorithm, by its kind or by its own `alg`, is an error of joserfc.
        """
        for key in self._source.keys:
            with suppress(*_ERRORS):
                return jwt.decode(token, key, _ALGORITHMS).claims
        raise InvalidKeyIdError("no key has signed the token")
