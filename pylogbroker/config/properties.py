"""Properties files: Java's format, in UTF-8 or else Latin-1.

A text without escapes is read and written here: the package javaproperties imports parsers of XML, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.java.text import trim

if TYPE_CHECKING:
    import javaproperties
else:
    javaproperties = on_first_use("javaproperties")

_PLAIN_LINE: Final = re.compile(r"(?:[#!][^\\\r]*|([\w.-]+)=((?:[^\s\\][^\\\r]*)?))?", re.ASCII)
_PLAIN_FIELD: Final = re.compile(r"[\w.-]+=[\w.,/-]*", re.ASCII)


def loads(text: str) -> dict[str, str]:
    """Return the settings in a text; raise ValueError for an invalid escape."""
    settings = {}
    for line in text.split("\n"):
        plain = _PLAIN_LINE.fullmatch(line)
        if plain is None:
            return dict(javaproperties.loads(text))
        if plain[1] is not None:
            settings[plain[1]] = plain[2]
    return settings


def dumps(settings: Mapping[str, str]) -> str:
    """Return the text of settings, which has Latin-1 characters alone."""
    lines = [f"{name}={value}" for name, value in settings.items()]
    if not all(map(_PLAIN_FIELD.fullmatch, lines)):
        return javaproperties.dumps(settings, timestamp=False)
    return "".join(f"{line}\n" for line in lines)


def read(path: str) -> dict[str, str]:
    """Return a file's settings; raise ConfigError if it is unreadable or no properties file."""
    try:
        with open(path, "rb") as file:
            return loads(_text(file.read()))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except ValueError as error:
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
        if not equals or not trim(name):
            raise ConfigError(f"override {assignment!r} is not accepted; expected name=value")
        settings[trim(name)] = trim(value)
    return settings
