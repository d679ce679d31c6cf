"""Principals: who sends requests, `User:name`; those of TLS clients come from the names in their certificates.

Rules may shorten a distinguished name (KIP-371), the setting `ssl.principal.mapping.rules`:

    RULE:^CN=([^,]+),.*$/$1/L, DEFAULT

A rule is `RULE:pattern/replacement/` and then L or U for lower or upper case. The first rule whose pattern matches the
whole name applies. DEFAULT is the name itself. Patterns and replacements are Java's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NoReturn

import attrs

from pylogbroker.errors import ConfigError
from pylogbroker.java.pattern import Found, Pattern, TooManySteps
from pylogbroker.java.pattern_syntax import PatternError
from pylogbroker.java.text import trim

ANONYMOUS: Final = "User:ANONYMOUS"

_SETTING: Final = "ssl.principal.mapping.rules"
_ESCAPED: Final = r"\\[^\n\r\u0085\u2028\u2029]"
_RULE: Final = (
    rf"(?P<default>DEFAULT)|RULE:(?P<pattern>(?:{_ESCAPED}|[^\\/])*)/(?P<replacement>(?:{_ESCAPED}|[^\\/])*)/"
    r"(?P<case>[LU]?)"
)
_RULES: Final = re.compile(rf"\s*(?:{_RULE})?\s*(?:,|\Z)", re.ASCII)
_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_BASIC_MAX: Final = "\uffff"
_GROUP_DIGITS_MAX: Final = 9
_REPLACEMENT: Final = re.compile(
    r"\\(?P<escaped>.)|\$(?P<number>[0-9])|\$\{(?P<name>[a-zA-Z][a-zA-Z0-9]*)\}|(?P<wrong>[\\$])|(?P<text>[^\\$]+)",
    re.DOTALL,
)


def parts(principal: str) -> tuple[str, str]:
    """Return type and name of a principal: `User` and `name`."""
    kind, _, name = principal.partition(":")
    return kind, name


class NoRule(ValueError):
    """No rule applies to a name."""


@attrs.frozen
class _Rule:
    """One rule; a number in `replacement` is the group of that number."""

    pattern: Pattern
    replacement: tuple[int | str, ...]
    case: str

    def apply(self, name: str) -> str | None:
        """Return the new name, or None; raise TooManySteps."""
        if self.pattern.full_match(name) is None:
            return None
        result, end = [], 0
        for match in self.pattern.find_all(name):
            if match.end < len(name) and max(name) > _BASIC_MAX:
                return None  # Java goes on by half characters
            result += [name[end : match.start], self._expanded(match)]
            end = match.end
        text = "".join([*result, name[end:]])
        return text.lower() if self.case == "L" else text.upper() if self.case == "U" else text

    def _expanded(self, match: Found) -> str:
        return "".join(part if isinstance(part, str) else match.group(part) or "" for part in self.replacement)


@attrs.frozen
class PrincipalMapping:
    """Rules from a distinguished name to a principal; None stands for DEFAULT."""

    _rules: tuple[_Rule | None, ...] = (None,)

    @classmethod
    def parse(cls, text: str) -> PrincipalMapping:
        """Parse the setting; raise ConfigError."""
        text = trim(text)
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
            try:
                mapped = name if rule is None else rule.apply(name)
            except TooManySteps:
                raise NoRule(f"a name of {len(name)} characters takes too long to compare with {_SETTING}") from None
            if mapped is not None:
                return f"User:{mapped}"
        raise NoRule(f"no rule of {_SETTING} applies to {name}")


def _rule(match: re.Match[str]) -> _Rule:
    try:
        pattern = Pattern.compile(match["pattern"])
    except PatternError as error:
        raise ConfigError(
            f"{_SETTING}: the pattern {match['pattern']!r} is not accepted: {error}; expected a regular expression of "
            "Java"
        ) from None
    return _Rule(pattern, tuple(_parsed_replacement(match["replacement"], pattern)), match["case"])


def _parsed_replacement(text: str, pattern: Pattern) -> list[int | str]:
    """Parse Java's references `$1` and `${name}`, and a backslash before what stands for itself; raise ConfigError."""

    def fail(why: str) -> NoReturn:
        raise ConfigError(f"{_SETTING}: the replacement {text!r} is not accepted: {why}")

    pieces: list[int | str] = []
    literal, position = _with_literal_references(text, pattern.groups, fail), 0
    while position < len(literal):
        part = _REPLACEMENT.match(literal, position)
        assert part is not None
        position = part.end()
        if part["wrong"]:
            fail("behind '$' there must be the number of a group, or {name}, and behind '\\' a character")
        elif part["number"]:
            number = int(part["number"])
            while literal[position : position + 1] in tuple("0123456789"):
                longer = 10 * number + int(literal[position])
                if longer > pattern.groups:
                    break
                number, position = longer, position + 1
            pieces.append(number)
        elif part["name"]:
            pieces.append(pattern.names.get(part["name"], -1))
        else:
            pieces.append(part["escaped"] or part["text"])
    for number in (piece for piece in pieces if isinstance(piece, int)):
        if not 0 <= number <= pattern.groups:
            fail("the pattern has no such group")
        if number in pattern.uncertain:
            fail(
                f"Java does not say what group {number} is, which stands within a repetition, an atomic group or "
                "look-ahead; repeat a group '(?:...)' within it instead"
            )
    return pieces


def _with_literal_references(text: str, groups: int, fail: Callable[[str], NoReturn]) -> str:
    """Escape `$4` where the pattern has fewer than 4 groups, if it has any, as Kafka does."""
    if not groups:
        return text
    escaped = 0
    result = text
    for reference in _REFERENCE.finditer(text):
        digits = reference[1]
        if digits.startswith("0"):
            continue
        if len(digits) > _GROUP_DIGITS_MAX:
            fail("the number of a group is too long")
        number = int(digits)
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            if escaped:
                fail("Kafka takes one reference to a group that the pattern does not have, and no more")
            result = result[: reference.start()] + "\\" + result[reference.start() :]
            escaped += 1
    return result
