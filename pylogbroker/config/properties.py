"""Properties files: Java's format, in UTF-8 or else Latin-1."""

from __future__ import annotations

from collections.abc import Iterable

import javaproperties

from pylogbroker.errors import ConfigError


def read(path: str) -> dict[str, str]:
    """Return a file's settings; raise ConfigError if it is unreadable or no properties file."""
    try:
        with open(path, "rb") as file:
            return dict(javaproperties.loads(_text(file.read())))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(f"{path}: not a properties file: {error}") from error


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Return the settings in `name=value` texts; raise ConfigError without `=`. The last of several counts."""
    settings: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"override {assignment!r} is not accepted; expected name=value")
        settings[name.strip()] = value.strip()
    return settings
