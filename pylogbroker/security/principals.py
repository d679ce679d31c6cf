"""Principals: who sends requests, `User:name`; those of TLS clients come from the names in their certificates.

Rules may shorten a distinguished name (KIP-371), the setting `ssl.principal.mapping.rules`:

    RULE:^CN=([^,]+),.*$/$1/L, DEFAULT

A rule is `RULE:pattern/replacement/` and then L or U for lower or upper case. The first rule whose pattern matches the
whole name applies. DEFAULT is the name itself.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from pylogbroker.errors import ConfigError

ANONYMOUS: Final = "User:ANONYMOUS"

_SETTING: Final = "ssl.principal.mapping.rules"
_RULE: Final = (
    r"(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
)
_RULES: Final = re.compile(rf"\s*(?:{_RULE})?\s*(?:,|$)", re.DOTALL)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


def parts(principal: str) -> tuple[str, str]:
    """Return type and name of a principal: `User` and `name`."""
    kind, _, name = principal.partition(":")
    return kind, name


class NoRule(ValueError):
    """No rule applies to a name."""


@attrs.frozen
class _Rule:
    pattern: re.Pattern[str]
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(self._expand, name)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result

    def _expand(self, match: re.Match[str]) -> str:
        """Return the replacement with Java's references: `$1`, and a backslash before what stands for itself."""

        def value(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            digits, rest = reference[2], ""
            while len(digits) > 1 and int(digits) > match.re.groups:
                digits, rest = digits[:-1], digits[-1] + rest
            if int(digits) > match.re.groups:
                return reference[0]
            return (match[int(digits)] or "") + rest

        return _REFERENCE.sub(value, self.replacement)


@attrs.frozen
class PrincipalMapping:
    """Rules from a distinguished name to a principal; None stands for DEFAULT."""

    _rules: tuple[_Rule | None, ...] = (None,)

    @classmethod
    def parse(cls, text: str) -> PrincipalMapping:
        """Parse the setting; raise ConfigError."""
        rules, position = [], 0
        while position < len(text):
            match = _RULES.match(text, position)
            if match is None:
                raise ConfigError(
                    f"{_SETTING}: {text[position:].strip()!r} is not accepted; expected DEFAULT, or "
                    "RULE:pattern/replacement/ with L or U at its end, separated by commas"
                )
            if match["default"] or match["pattern"] is not None:
                rules.append(None if match["default"] else _rule(match))
            position = match.end()
        return cls(tuple(rules)) if rules else cls()

    def principal(self, name: str) -> str:
        """Return the principal of a distinguished name; raise NoRule."""
        for rule in self._rules:
            found = name if rule is None else rule.apply(name)
            if found is not None:
                return f"User:{found}"
        raise NoRule(f"no rule of {_SETTING} applies to {name}")


def _rule(match: re.Match[str]) -> _Rule:
    try:
        return _Rule(re.compile(match["pattern"]), match["replacement"], match["case"])
    except re.error as error:
        raise ConfigError(f"{_SETTING}: {match['pattern']!r} is not a regular expression: {error}") from None
