"""Parameters of a request, checked: those of its address, of a form, or of a body in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite, nan
from typing import Any, Final

import attrs
from twisted.web.server import Request

from pylogbroker.java.text import is_digits
from pylogbroker.json_text import MemberTwice, named_once, tokens_of

NUMBER_MAX: Final = 2**63 - 1
TEXT_BYTES_MAX: Final = 1000
"""Bytes of a parameter in an address."""

Value = str | Mapping[str, str]


class BadQuery(ValueError):
    """A parameter is missing or wrong: the message says which."""


@attrs.frozen
class Query:
    """Parameters by name; only JSON has objects."""

    _values: Mapping[str, Value]

    @classmethod
    def of(cls, request: Request, bytes_max: int = TEXT_BYTES_MAX) -> Query:
        """Raise BadQuery for a parameter that is not UTF-8, or is too long."""
        values: dict[str, Value] = {}
        for name, (*_, last) in (request.args or {}).items():
            try:
                values[name.decode()] = last.decode()
            except UnicodeDecodeError:
                raise BadQuery("a parameter is not UTF-8") from None
            if len(last) > bytes_max:
                raise BadQuery(f"a parameter has more than {bytes_max} bytes")
        return cls(values)

    @classmethod
    def of_json(cls, body: bytes) -> Query:
        """Parse an object of texts, numbers, booleans, null, and objects of texts; raise BadQuery.

        Numbers stay the texts that they are: a conversion could round them.
        """
        try:
            found = tokens_of(body, named_once)
        except MemberTwice as error:
            raise BadQuery(str(error)) from None
        except (ValueError, RecursionError):
            raise BadQuery("the body is not JSON") from None
        if not isinstance(found, dict):
            raise BadQuery("the body is not a JSON object")
        values = {name: _from_json(name, value) for name, value in found.items()}
        return cls({name: value for name, value in values.items() if value is not None})

    def with_line_feeds(self) -> Query:
        """Return the parameters with \\n between lines, where browsers send \\r\\n whatever was typed."""
        return Query(
            {
                name: value.replace("\r\n", "\n") if isinstance(value, str) else value
                for name, value in self._values.items()
            }
        )

    def given(self, name: str) -> str | None:
        """Return a parameter as it is; None without one."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, str):
            raise BadQuery(f"{name} must be a text")
        return value

    def text(self, name: str) -> str:
        """Return a parameter without the space around it, or an empty text."""
        return (self.given(name) or "").strip()

    def required(self, name: str) -> str:
        """Return a parameter as it is; raise BadQuery if there is none."""
        found = self.given(name)
        if found is None:
            raise BadQuery(f"{name} is missing")
        return found

    def filled(self, name: str) -> str:
        """Return a parameter without the space around it; raise BadQuery if there is none, or nothing else."""
        found = self.text(name)
        if not found:
            raise BadQuery(f"{name} is missing")
        return found

    def number(self, name: str, default: int | None = None, greatest: int = NUMBER_MAX) -> int | None:
        """Return a number of at least 0, or `default`; a number above `greatest` becomes it."""
        text = self.text(name)
        if not text:
            return default
        if not is_digits(text) or len(text) > len(str(NUMBER_MAX)):
            raise BadQuery(f"{name} must be a number of at least 0")
        return min(int(text), greatest)

    def count(self, name: str, default: int, greatest: int = NUMBER_MAX) -> int:
        """Return a number like `number`, never None."""
        found = self.number(name, default, greatest)
        return default if found is None else found

    def shift(self, name: str) -> int:
        """Return a number that may be negative; raise BadQuery if there is none."""
        text = self.text(name)
        digits = text.removeprefix("-")
        if not is_digits(digits) or len(digits) >= len(str(NUMBER_MAX)):
            raise BadQuery(f"{name} must be a number, which may be negative")
        return int(text)

    def decimal(self, name: str) -> float:
        """Return a number that may have a fraction; raise BadQuery if there is none."""
        try:
            found = float(self.text(name))
        except ValueError:
            found = nan
        if not isfinite(found):
            raise BadQuery(f"{name} must be a number")
        return found

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of `choices`, by default the first."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise BadQuery(f"{name} must be one of {', '.join(choices)}")
        return text

    def flag(self, name: str) -> bool:
        """Return whether a parameter is not empty, 0 or false."""
        return self.text(name).lower() not in ("", "0", "false")

    def pairs(self, name: str, separator: str) -> list[tuple[str, str]]:
        """Return names and values: those of an object, or of a text's lines."""
        value = self._values.get(name, "")
        if not isinstance(value, str):
            return list(value.items())
        found = []
        for line in filter(str.strip, value.splitlines()):
            left, mark, right = line.partition(separator)
            if not mark:
                raise BadQuery(f"{name}: expected lines like name{separator}value")
            found.append((left.strip(), right.strip()))
        return found


def milliseconds(text: str) -> int:
    """Return milliseconds since 1970 of a number, or of a time in ISO 8601, which is UTC unless it says."""
    text = text.strip()
    if is_digits(text) and len(text) <= len(str(2**63)):
        return min(int(text), 2**63 - 1)
    try:
        time = datetime.fromisoformat(text)
        return max(0, int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise BadQuery("time must be milliseconds since 1970, or like 2026-01-31T12:00") from None


def _from_json(name: str, value: Any) -> Value | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        return value
    raise BadQuery(f"{name}: expected a text, a number, a boolean, null, or an object of texts")
