"""Users with passwords, or with the keys that SCRAM derives from them (RFC 5802).

A user that does not exist gets stand-ins of the same shape, so that clients cannot find out which names exist.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from hashlib import pbkdf2_hmac
from typing import Final

import attrs

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
HASHES: Final[Mapping[str, str]] = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
MECHANISMS: Final = (PLAIN, *HASHES)

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384

_SALT_BYTES: Final = 24
_DEFAULT_SHAPE: Final = (ITERATIONS_MIN, _SALT_BYTES)


@attrs.frozen
class ScramKeys:
    """Keys of one password for one mechanism; the password cannot be computed from them."""

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes = attrs.field(repr=False)
    server_key: bytes = attrs.field(repr=False)

    @classmethod
    def derive(cls, mechanism: str, password: str, salt: bytes, iterations: int) -> ScramKeys:
        """Compute the keys, which takes milliseconds."""
        name = HASHES[mechanism]
        salted = pbkdf2_hmac(name, password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", name)
        return cls(mechanism, iterations, salt, digest(name, client_key), hmac.digest(salted, b"Server Key", name))

    def is_of(self, password: str) -> bool:
        derived = ScramKeys.derive(self.mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(derived.stored_key, self.stored_key)


def digest(name: str, data: bytes) -> bytes:
    return hashlib.new(name, data).digest()


@attrs.frozen
class Users:
    """Users by name, for all mechanisms. `secret` makes the salts of passwords, and of users that do not exist."""

    passwords: Mapping[str, str] = attrs.field(repr=False)
    keys: Mapping[tuple[str, str], ScramKeys] = attrs.field(repr=False)  # by mechanism and name
    _secret: bytes = attrs.field(repr=False)

    @property
    def is_empty(self) -> bool:
        return not self.passwords and not self.keys

    def check(self, name: str, password: str) -> bool:
        """Check a password, against the keys of any mechanism if there are some. Takes milliseconds."""
        mechanism = next((each for each in HASHES if (each, name) in self.keys), SCRAM_SHA_256)
        keys, exists = self.scram_keys(mechanism, name)
        return keys.is_of(password) and exists

    def challenge(self, mechanism: str, name: str) -> tuple[bytes, int]:
        """Return salt and iterations, also for a user that does not exist."""
        found = self.keys.get((mechanism, name))
        if found is not None:
            return found.salt, found.iterations
        material = hmac.digest(self._secret, f"{mechanism}\0{name}".encode(), "sha512")
        shapes = sorted({(keys.iterations, len(keys.salt)) for keys in self.keys.values()})
        if name in self.passwords or not shapes:
            shapes = [_DEFAULT_SHAPE]
        iterations, size = shapes[material[-1] % len(shapes)]
        return material[:size], iterations

    def scram_keys(self, mechanism: str, name: str) -> tuple[ScramKeys, bool]:
        """Return keys, and whether the user exists. Takes milliseconds."""
        found = self.keys.get((mechanism, name))
        if found is not None:
            return found, True
        salt, iterations = self.challenge(mechanism, name)
        password = self.passwords.get(name)
        secret = self._secret.hex() if password is None else password
        return ScramKeys.derive(mechanism, secret, salt, iterations), password is not None
