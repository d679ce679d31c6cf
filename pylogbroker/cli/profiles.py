"""Profiles: named settings of clients in a TOML file, `~/.config/pylogbroker/config.toml` or $PYLOGBROKER_CONFIG.

    default = "production"

    [profiles.production]
    "bootstrap.servers" = "one:9092,two:9092"
    "security.protocol" = "SASL_SSL"
    "sasl.username" = "admin"
    "sasl.password" = { file = "/home/me/kafka.password" }

A secret may also be in the system's keyring: `{ keyring = "production/sasl.password" }`. Changes keep the lines that
they do not concern, with their comments.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pylogbroker.errors import ConfigError
from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    import json
    import tomllib

    import keyring
else:
    json = on_first_use("json")
    keyring = on_first_use("keyring")
    tomllib = on_first_use("tomllib")

KEYRING_SERVICE: Final = "pylogbroker"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_TABLE: Final = re.compile(r"\s*\[")
_DEFAULT: Final = re.compile(r"\s*default\s*=")
_SOURCES: Final = ("file", "keyring")

Profile = Mapping[str, Any]


def default_path() -> Path | None:
    """Return the place of the file, which need not exist; None without a home directory."""
    named = os.environ.get("PYLOGBROKER_CONFIG")
    if named:
        return Path(named)
    try:
        directory = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    except RuntimeError:
        return None
    return directory / "pylogbroker" / "config.toml"


class ProfileFile:
    """The profiles of a file. Raises ConfigError for a text that is not one of profiles, OSError for no text."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._text = text
        try:
            content = tomllib.loads(text)
        except ValueError as error:
            raise ConfigError(f"{path}: not TOML in UTF-8: {error}") from error
        self.default: str | None = content.get("default")
        profiles = content.get("profiles", {})
        tables = profiles if isinstance(profiles, dict) else {}
        self.profiles: dict[str, Profile] = {name: table for name, table in tables.items() if isinstance(table, dict)}

    @classmethod
    def read(cls, path: Path) -> ProfileFile:
        try:
            return cls(path, path.read_text("utf-8"))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: not TOML in UTF-8: {error}") from error

    @classmethod
    def read_or_empty(cls, path: Path) -> ProfileFile:
        try:
            return cls.read(path)
        except FileNotFoundError:
            return cls(path, "")

    def profile(self, name: str) -> Profile:
        """Return the settings of a profile, without the values of its secrets. Raise ConfigError."""
        if name not in self.profiles:
            names = ", ".join(sorted(self.profiles)) or "none"
            raise ConfigError(
                f"{self.path}: there is no profile {name}; it has {names}: make one by `pylogbroker profile create`"
            )
        return self.profiles[name]

    def settings(self, name: str) -> dict[str, str]:
        """Return the settings of a profile as texts, with its secrets."""
        return {setting: _value(name, setting, value) for setting, value in self.profile(name).items()}

    def added(self, name: str, profile: Profile) -> ProfileFile:
        """Return the file with another profile at its end."""
        if _NAME.fullmatch(name) is None:
            raise ConfigError(f"profile {name!r} is not accepted; expected letters, digits, _ and -")
        if name in self.profiles:
            raise ConfigError(f"{self.path}: there is a profile {name} already: edit it there, or delete it first")
        lines = [f"[profiles.{name}]", *(f"{_quoted(setting)} = {_toml(value)}" for setting, value in profile.items())]
        given = {setting: value if is_secret_source(value) else str(value) for setting, value in profile.items()}
        space = [""] if self._text.strip() else []
        return self._changed([*self._lines(), *space, *lines], {**self.profiles, name: given})

    def with_default(self, name: str | None) -> ProfileFile:
        """Return the file with this profile as the default; None: without a default."""
        head, tables = self._head_and_tables()
        kept = [line for line in head if not _DEFAULT.match(line)]
        chosen = [] if name is None else [f"default = {_quoted(name)}", *([] if kept else [""])]
        return self._changed([*chosen, *kept, *tables], self.profiles)

    def without(self, name: str) -> ProfileFile:
        """Return the file without a profile, which is not the default any more."""
        self.profile(name)
        file = self.with_default(None) if self.default == name else self
        kept, is_kept = [], True
        for line in file._lines():
            if _TABLE.match(line):
                is_kept = re.match(rf"\s*\[\s*profiles\s*\.\s*\"?{re.escape(name)}\"?\s*[.\]]", line) is None
            if is_kept:
                kept.append(line)
        return file._changed(kept, {other: self.profiles[other] for other in self.profiles if other != name})

    def save(self) -> None:
        """Replace the file, readable for its owner alone."""
        path = Path(os.path.realpath(self.path))  # a link stays one
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # with mode 0600
        try:
            with open(number, "w", encoding="utf-8") as file:
                file.write(self._text)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise

    def _lines(self) -> list[str]:
        return self._text.rstrip("\n").split("\n") if self._text else []

    def _head_and_tables(self) -> tuple[list[str], list[str]]:
        lines = self._lines()
        first = next((number for number, line in enumerate(lines) if _TABLE.match(line)), len(lines))
        return lines[:first], lines[first:]

    def _changed(self, lines: list[str], expected: Mapping[str, Profile]) -> ProfileFile:
        """Return the file with other lines; raise ConfigError for a form of TOML that lines do not follow."""
        try:
            changed = ProfileFile(self.path, "\n".join(lines).strip("\n") + "\n")
        except ConfigError:
            changed = None
        if changed is None or changed.profiles != expected:
            raise ConfigError(f"{self.path}: its form is too unusual to be changed by this command: edit it")
        return changed


def is_secret_source(value: object) -> bool:
    """Return whether a value of a profile says where the secret is."""
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _SOURCES


def store_in_keyring(name: str, secret: str) -> None:
    with required_by("a secret in the keyring"):
        keyring.set_password(KEYRING_SERVICE, name, secret)


def _value(profile: str, setting: str, value: object) -> str:
    if not isinstance(value, dict):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if not is_secret_source(value):
        raise ConfigError(f"profile {profile}: {setting}: expected a text, {{ file = ... }} or {{ keyring = ... }}")
    [(source, place)] = value.items()
    return _from_file(profile, setting, str(place)) if source == "file" else _from_keyring(profile, setting, str(place))


def _from_file(profile: str, setting: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ConfigError(f"profile {profile}: {setting}: {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"profile {profile}: {setting}: {path}: not UTF-8") from error


def _from_keyring(profile: str, setting: str, name: str) -> str:
    with required_by(f"profile {profile}"):
        secret: str | None = keyring.get_password(KEYRING_SERVICE, name)
    if secret is None:
        raise ConfigError(
            f"profile {profile}: {setting}: the keyring has no secret {name} of {KEYRING_SERVICE}:"
            f" store it by `keyring set {KEYRING_SERVICE} {name}`"
        )
    return secret


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(member)}" for name, member in value.items()) + " }"
    return _quoted(str(value))


def _quoted(text: str) -> str:
    """Return a basic string of TOML, which has JSON's escapes, and needs one for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
