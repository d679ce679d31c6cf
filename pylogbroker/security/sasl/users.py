"""Users with passwords, or with the keys that SCRAM derives from them (RFC 5802).

A user that does not exist gets stand-ins of the same shape, so that clients cannot find out which names exist.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from hashlib import pbkdf2_hmac
from typing import Final, NamedTuple, Protocol

import attrs

from pylogbroker.config.mechanisms import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

HASHES: Final[Mapping[str, str]] = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
MECHANISMS: Final = (PLAIN, *HASHES)

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384

_SALT_BYTES: Final = 24
_ALPHABET: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


class SaltShape(NamedTuple):
    """Shape of a challenge. Salts of Java's clients are text: digits and lower-case letters."""

    iterations: int
    size: int
    is_text: bool

    def salt(self, material: bytes) -> bytes:
        """Make a salt of some random bytes."""
        material = (material * (self.size // len(material) + 1))[: self.size]
        return bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in material) if self.is_text else material


_DEFAULT_SHAPE: Final = SaltShape(ITERATIONS_MIN, _SALT_BYTES, False)


@attrs.frozen
class ScramKeys:
    """Keys of one password for one mechanism; the password cannot be computed from them."""

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes = attrs.field(repr=False)
    server_key: bytes = attrs.field(repr=False)

    @property
    def shape(self) -> SaltShape:
        return SaltShape(self.iterations, len(self.salt), not self.salt.strip(_ALPHABET))

    @classmethod
    def of_salted(cls, mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramKeys:
        """Compute the keys of a salted password."""
        name = HASHES[mechanism]
        client_key = hmac.digest(salted, b"Client Key", name)
        return cls(mechanism, iterations, salt, digest(name, client_key), hmac.digest(salted, b"Server Key", name))

    @classmethod
    def derive(cls, mechanism: str, password: str, salt: bytes, iterations: int) -> ScramKeys:
        """Compute the keys, which takes milliseconds."""
        return cls.of_salted(mechanism, salt_password(mechanism, password, salt, iterations), salt, iterations)

    def is_of(self, password: str) -> bool:
        derived = ScramKeys.derive(self.mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(derived.stored_key, self.stored_key)


def salt_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return what requests carry instead of a password; this takes milliseconds."""
    return pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def digest(name: str, data: bytes) -> bytes:
    return hashlib.new(name, data).digest()


class KeyTable(Protocol):
    """Keys of users who are kept elsewhere. Any thread may ask."""

    @property
    def shapes(self) -> tuple[SaltShape, ...]:
        """Shapes of the users' challenges, sorted."""

    def get(self, mechanism: str, name: str, /) -> ScramKeys | None: ...


@attrs.frozen
class Users:
    """Users by name, for all mechanisms. `secret` makes the salts of passwords, and of users that do not exist.

    Users in `stored` have keys only; a name that has a password or keys here has none there.
    """

    passwords: Mapping[str, str] = attrs.field(repr=False)
    keys: Mapping[tuple[str, str], ScramKeys] = attrs.field(repr=False)  # by mechanism and name
    _secret: bytes = attrs.field(repr=False)
    _stored: KeyTable | None = attrs.field(default=None, repr=False)
    _names: frozenset[str] = attrs.field(init=False, repr=False)
    _shapes: frozenset[SaltShape] = attrs.field(init=False, repr=False)

    @_names.default
    def _names_here(self) -> frozenset[str]:
        return frozenset(self.passwords) | {name for _, name in self.keys}

    @_shapes.default
    def _shapes_here(self) -> frozenset[SaltShape]:
        return frozenset(keys.shape for keys in self.keys.values())

    @property
    def is_empty(self) -> bool:
        return not self._names and (self._stored is None or not self._stored.shapes)

    def check(self, name: str, password: str) -> bool:
        """Check a password, against the keys of any mechanism if there are some. Takes milliseconds."""
        mechanism = next((candidate for candidate in HASHES if self._found(candidate, name) is not None), SCRAM_SHA_256)
        keys, exists = self.scram_keys(mechanism, name)
        return keys.is_of(password) and exists

    def challenge(self, mechanism: str, name: str) -> tuple[bytes, int]:
        """Return salt and iterations, also for a user that does not exist."""
        keys = self._found(mechanism, name)
        if keys is not None:
            return keys.salt, keys.iterations
        shape = self._stand_in(name)
        return shape.salt(self._random(f"{mechanism}\0{name}")), shape.iterations

    def scram_keys(self, mechanism: str, name: str) -> tuple[ScramKeys, bool]:
        """Return keys, and whether the user exists. Takes milliseconds."""
        keys = self._found(mechanism, name)
        if keys is not None:
            return keys, True
        salt, iterations = self.challenge(mechanism, name)
        password = self.passwords.get(name)
        secret = self._secret.hex() if password is None else password
        return ScramKeys.derive(mechanism, secret, salt, iterations), password is not None

    def _found(self, mechanism: str, name: str) -> ScramKeys | None:
        if name in self._names or self._stored is None:
            return self.keys.get((mechanism, name))
        return self._stored.get(mechanism, name)

    def _stand_in(self, name: str) -> SaltShape:
        """Return the shape of a user's challenge who has no keys: one that other users have."""
        shapes = self._shapes.union(() if self._stored is None else self._stored.shapes)
        if self.passwords or not shapes:
            shapes |= {_DEFAULT_SHAPE}
        return _DEFAULT_SHAPE if name in self.passwords else sorted(shapes)[self._random(name)[0] % len(shapes)]

    def _random(self, text: str) -> bytes:
        return hmac.digest(self._secret, text.encode(), "sha512")
