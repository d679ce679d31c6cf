"""File of users, a line for each password, or for the keys of one mechanism:

    alice:secret
    bob:SCRAM-SHA-256$4096$salt$stored key$server key

Salt and keys are base64. Empty lines, and those that begin with `#`, are ignored.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Final

import attrs

from pylogbroker.errors import ConfigError
from pylogbroker.java.text import is_digits
from pylogbroker.security.sasl.users import HASHES, ITERATIONS_MAX, ITERATIONS_MIN, ScramKeys

_FIELDS: Final = 5


@attrs.frozen
class FileContent:
    passwords: dict[str, str] = attrs.field(factory=dict, repr=False)
    keys: dict[tuple[str, str], ScramKeys] = attrs.field(factory=dict, repr=False)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.passwords) | {name for _, name in self.keys}


def parse(text: str, where: str) -> FileContent:
    """Parse the file; raise ConfigError, which names the line, not its content."""
    content = FileContent()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, credential = line.partition(":")
        if not (name and colon and credential):
            raise ConfigError(f"{where}, line {number}: expected name:password")
        keys = _keys(credential, f"{where}, line {number}")
        if keys is not None:
            is_new = content.keys.setdefault((keys.mechanism, name), keys) is keys
        else:
            is_new = name not in content.passwords
            content.passwords[name] = credential
        if not is_new:
            raise ConfigError(f"{where}, line {number}: this user occurs twice")
    return content


def with_user(text: str, name: str, keys: Iterable[ScramKeys]) -> str:
    """Return the file's text with the keys of a user, in place of what it had for the name; raise ConfigError."""
    if not name or ":" in name or name.startswith("#") or not name.isprintable() or name != name.strip():
        raise ConfigError(
            f"user: {name!r} is not accepted; expected a name without a colon, and without # or a space at an end"
        )
    lines = [line for line in text.splitlines() if not _is_of(line, name)]
    return "\n".join([*lines, *(f"{name}:{_encoded(scram_keys)}" for scram_keys in keys), ""])


def without_user(text: str, name: str) -> str:
    """Return the file's text without the lines of a user."""
    return "".join(f"{line}\n" for line in text.splitlines() if not _is_of(line, name))


def _is_of(line: str, name: str) -> bool:
    return not line.startswith("#") and line.startswith(f"{name}:")


def _encoded(keys: ScramKeys) -> str:
    parts = (base64.b64encode(part).decode() for part in (keys.salt, keys.stored_key, keys.server_key))
    return "$".join((keys.mechanism, str(keys.iterations), *parts))


def _keys(credential: str, where: str) -> ScramKeys | None:
    mechanism, *fields = credential.split("$")
    if mechanism not in HASHES or not fields:
        return None
    if len(fields) != _FIELDS - 1 or not is_digits(fields[0]):
        raise ConfigError(f"{where}: expected name:{mechanism}$iterations$salt$stored key$server key")
    iterations = int(fields[0])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ConfigError(f"{where}: expected {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations")
    try:
        salt, stored_key, server_key = (base64.b64decode(field, validate=True) for field in fields[1:])
    except binascii.Error:
        raise ConfigError(f"{where}: salt and keys must be base64") from None
    size = 32 if HASHES[mechanism] == "sha256" else 64
    if not salt or len(stored_key) != size or len(server_key) != size:
        raise ConfigError(f"{where}: expected a salt, and keys of {size} bytes")
    return ScramKeys(mechanism, iterations, salt, stored_key, server_key)
