"""Credentials of SCRAM in the coordination tree, in Kafka's layout.

/config/users/<name>
    {"version":1,"config":{"SCRAM-SHA-256":"salt=...,stored_key=...,server_key=...,iterations=4096"}}

Salt and keys are base64. Other keys of the map are a user's quotas.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Mapping
from typing import Final

import attrs

from pylogbroker.java.text import parse_whole
from pylogbroker.security.sasl.users import HASHES, SaltShape, ScramKeys

MECHANISM_NUMBERS: Final[Mapping[int, str]] = dict(enumerate(HASHES, 1))
_FIELDS: Final = frozenset({"salt", "stored_key", "server_key", "iterations"})

Credentials = Mapping[str, ScramKeys]
"""Keys of one user by mechanism."""


class BadCredential(ValueError):
    """A stored credential cannot be read; the message does not show it."""


def encode(keys: ScramKeys) -> str:
    salt, stored, server = (base64.b64encode(part).decode() for part in (keys.salt, keys.stored_key, keys.server_key))
    return f"salt={salt},stored_key={stored},server_key={server},iterations={keys.iterations}"


def decode(mechanism: str, text: str) -> ScramKeys:
    """Return the keys; raise BadCredential."""
    fields = dict(field.partition("=")[::2] for field in text.split(","))
    if fields.keys() != _FIELDS:
        raise BadCredential(f"expected the fields {', '.join(sorted(_FIELDS))}")
    try:
        salt, stored, server = (
            base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        return ScramKeys(mechanism, parse_whole(fields["iterations"], 32), salt, stored, server)
    except (binascii.Error, ValueError):
        raise BadCredential("salt and keys must be base64, and iterations a number") from None


def credentials_of(config: Mapping[str, str]) -> Credentials:
    """Return the credentials among a user's settings; raise BadCredential."""
    return {mechanism: decode(mechanism, config[mechanism]) for mechanism in HASHES if mechanism in config}


@attrs.define(eq=False, repr=False)
class StoredCredentials:
    """Present credentials of all users in the tree.

    The reactor thread changes them while others look a user up: `shapes` is replaced, never changed.
    """

    shapes: tuple[SaltShape, ...] = ()
    _users: dict[str, Credentials] = attrs.field(factory=dict, repr=False)
    _counts: Counter[SaltShape] = attrs.field(factory=Counter)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._users)

    def get(self, mechanism: str, name: str) -> ScramKeys | None:
        """Return a user's keys. Any thread may ask."""
        return self._users.get(name, {}).get(mechanism)

    def of(self, name: str) -> Credentials:
        return self._users.get(name, {})

    def replace(self, name: str, credentials: Credentials) -> None:
        """Set all credentials of a user; without any, the user is forgotten. Reactor thread only."""
        self._counts.subtract(credential.shape for credential in self.of(name).values())
        self._counts.update(credential.shape for credential in credentials.values())
        if credentials:
            self._users[name] = credentials
        else:
            self._users.pop(name, None)
        self._counts = +self._counts
        self.shapes = tuple(sorted(self._counts))
