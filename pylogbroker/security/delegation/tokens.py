"""Delegation tokens: by its id and its HMAC, a client connects as the owner of a token (KIP-48).

The HMAC is that of the id with the secret key of the cluster's brokers. It is the token's password in base64, so no
store has it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping, Set
from typing import Final

import attrs

from pylogbroker.security.sasl.users import Users

_HASH: Final = "sha512"
_SALTS: Final = b"salts of delegation tokens"


@attrs.frozen
class DelegationToken:
    """A token, whose principals are written as `User:name`. Times are milliseconds."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    """Latest time to which it can be renewed."""
    expires_ms: int

    @property
    def owner_name(self) -> str:
        return self.owner.partition(":")[2]

    def is_valid(self, now_ms: int) -> bool:
        return now_ms <= min(self.expires_ms, self.max_ms)

    def may_renew(self, principal: str) -> bool:
        """Return whether a principal may renew or expire the token."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principals: Set[str]) -> bool:
        """Return whether one of the principals owns, requested or may renew the token."""
        return any(principal in principals for principal in (self.owner, self.requester, *self.renewers))


@attrs.frozen
class IssuedToken:
    """A token, and the HMAC by which clients prove that they have it."""

    token: DelegationToken
    hmac: bytes = attrs.field(repr=False)

    @property
    def password(self) -> str:
        """The password of clients that connect by the token."""
        return password_of(self.hmac)


def password_of(mac: bytes) -> str:
    """Return a token's password, its HMAC in base64."""
    return base64.b64encode(mac).decode()


@attrs.frozen
class TokenSecret:
    """Secret key of the cluster's brokers."""

    _key: bytes = attrs.field(repr=False)

    def hmac(self, token_id: str) -> bytes:
        return hmac.digest(self._key, token_id.encode(), _HASH)

    def issued(self, token: DelegationToken) -> IssuedToken:
        return IssuedToken(token, self.hmac(token.token_id))

    def users(self, token_id: str | None) -> Users:
        """Return the only user that SCRAM knows, a token; None for no user, whose challenges look the same."""
        passwords: Mapping[str, str] = {} if token_id is None else {token_id: password_of(self.hmac(token_id))}
        return Users(passwords, {}, hmac.digest(self._key, _SALTS, _HASH))


@attrs.define(eq=False, repr=False)
class TokenTable:
    """Tokens in force. The reactor thread changes them, any thread may look one up by its id."""

    _key: TokenSecret
    _tokens: dict[str, DelegationToken] = attrs.field(factory=dict, init=False)
    _ids: dict[bytes, str] = attrs.field(factory=dict, init=False, repr=False)
    _counts: Counter[str] = attrs.field(factory=Counter, init=False)

    @property
    def ids(self) -> list[str]:
        return list(self._tokens)

    @property
    def tokens(self) -> list[DelegationToken]:
        return list(self._tokens.values())

    def get(self, token_id: str) -> DelegationToken | None:
        return self._tokens.get(token_id)

    def id_of(self, mac: bytes) -> str | None:
        """Return the id of the token with an HMAC. A digest is looked up, so that timing reveals nothing."""
        return self._ids.get(_digest(mac))

    def count_of(self, requester: str) -> int:
        """Return how many tokens a principal has requested."""
        return self._counts[requester]

    def replace(self, token_id: str, token: DelegationToken | None) -> None:
        """Set a token, or forget it."""
        before = self._tokens.pop(token_id, None)
        digest = _digest(self._key.hmac(token_id))
        if before is not None:
            self._counts[before.requester] -= 1
            if not self._counts[before.requester]:
                del self._counts[before.requester]
        if token is None:
            self._ids.pop(digest, None)
        else:
            self._tokens[token_id] = token
            self._ids[digest] = token_id
            self._counts[token.requester] += 1


def _digest(mac: bytes) -> bytes:
    return hashlib.sha256(mac).digest()
