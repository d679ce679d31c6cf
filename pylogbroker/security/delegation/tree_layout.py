"""Delegation tokens in the coordination tree, in Kafka's layout.

/delegation_token/tokens/<id>                        a token
/delegation_token/token_changes/token_change_<seq>   the id of a token that changed

A token is `{"version":3,"owner":"User%3Aalice","tokenRequester":...,"renewers":[...],"issueTimestamp":0,
"maxTimestamp":0,"expiryTimestamp":0,"tokenId":"..."}`. Versions 1 and 2 have no requester: it is the owner.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pylogbroker.metadata.entity_names import desanitized, sanitized
from pylogbroker.security.delegation.tokens import DelegationToken

TOKENS: Final = "/delegation_token/tokens"
CHANGES: Final = "/delegation_token/token_changes"
CHANGE_PREFIX: Final = f"{CHANGES}/token_change_"
PERMANENT_PATHS: Final = ("/delegation_token", CHANGES, TOKENS)
_VERSION: Final = 3
_WITH_REQUESTER: Final = 3


class BadToken(ValueError):
    """A stored token cannot be read."""


def path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    value = {
        "version": _VERSION,
        "owner": sanitized(token.owner),
        "tokenRequester": sanitized(token.requester),
        "renewers": [sanitized(renewer) for renewer in token.renewers],
        "issueTimestamp": token.issued_ms,
        "maxTimestamp": token.max_ms,
        "expiryTimestamp": token.expires_ms,
        "tokenId": token.token_id,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def decode_token(data: bytes | None) -> DelegationToken:
    """Return a node's token; raise BadToken."""
    try:
        fields: Any = json.loads(data or b"")
        if not 1 <= fields["version"] <= _VERSION:
            raise ValueError(f"version {fields['version']} is not known")
        owner = _principal(fields["owner"])
        return DelegationToken(
            str(fields["tokenId"]),
            owner,
            _principal(fields["tokenRequester"]) if fields["version"] >= _WITH_REQUESTER else owner,
            tuple(map(_principal, fields["renewers"])),
            int(fields["issueTimestamp"]),
            int(fields["maxTimestamp"]),
            int(fields["expiryTimestamp"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadToken(f"{type(error).__name__}: {error}") from None


def _principal(text: str) -> str:
    principal = desanitized(text)
    kind, _, name = principal.partition(":")
    if not (kind and name):
        raise ValueError("a principal is not of the form User:name")
    return principal


def encode_change(token_id: str) -> bytes:
    return token_id.encode()


def decode_change(data: bytes | None) -> str | None:
    """Return the id of a changed token; None for an unreadable notification."""
    try:
        token_id = (data or b"").decode()
    except UnicodeDecodeError:
        return None
    return None if not token_id or "/" in token_id or "\0" in token_id or token_id in (".", "..") else token_id
