"""Parameters of a request, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from twisted.web.server import Request

NUMBER_MAX: Final = 2**63 - 1
_NAME_CHARACTERS_MAX: Final = 1000


class BadQuery(ValueError):
    """A parameter is missing or wrong: the message says which."""


@attrs.frozen
class Query:
    _values: dict[str, str]

    @classmethod
    def of(cls, request: Request) -> Query:
        """Raise BadQuery for a parameter that is not UTF-8, or is too long."""
        values: dict[str, str] = {}
        for name, (*_, last) in (request.args or {}).items():
            try:
                values[name.decode()] = last.decode()
            except UnicodeDecodeError:
                raise BadQuery("a parameter is not UTF-8") from None
            if len(last) > _NAME_CHARACTERS_MAX:
                raise BadQuery(f"a parameter has more than {_NAME_CHARACTERS_MAX} bytes")
        return cls(values)

    def text(self, name: str) -> str:
        """Return a parameter without the space around it, or an empty text."""
        return self._values.get(name, "").strip()

    def required(self, name: str) -> str:
        """Return a parameter as it is; raise BadQuery if there is none."""
        if name not in self._values:
            raise BadQuery(f"{name} is missing")
        return self._values[name]

    def number(self, name: str, default: int | None = None, greatest: int = NUMBER_MAX) -> int | None:
        """Return a number of at least 0, or `default`; a number above `greatest` becomes it."""
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit()) or len(text) > len(str(NUMBER_MAX)):
            raise BadQuery(f"{name} must be a number of at least 0")
        return min(int(text), greatest)

    def count(self, name: str, default: int, greatest: int = NUMBER_MAX) -> int:
        """Return a number like `number`, never None."""
        found = self.number(name, default, greatest)
        return default if found is None else found

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of `choices`, by default the first."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise BadQuery(f"{name} must be one of {', '.join(choices)}")
        return text
