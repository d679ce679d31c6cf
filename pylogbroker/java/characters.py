"""Sets of characters that Java's regular expressions name: ASCII alone, where nothing else is said."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from typing import Final

import attrs

_END: Final = 0x110000


@attrs.frozen
class Characters:
    """Set of code points; `bounds` are the starts of ranges and the ends behind them, in ascending order."""

    bounds: tuple[int, ...] = ()

    @classmethod
    def of(cls, *ranges: tuple[int, int]) -> Characters:
        """Make the set of these ranges, whose ends are included."""
        bounds: list[int] = []
        for first, last in sorted(ranges):
            if bounds and first <= bounds[-1]:
                bounds[-1] = max(bounds[-1], last + 1)
            else:
                bounds += [first, last + 1]
        return cls(tuple(bounds))

    @classmethod
    def among(cls, characters: Iterable[str]) -> Characters:
        return cls.of(*((ord(character), ord(character)) for character in characters))

    def __contains__(self, code: int) -> bool:
        return bool(bisect_right(self.bounds, code) & 1)

    def __or__(self, other: Characters) -> Characters:
        return Characters.of(*self.ranges, *other.ranges)

    def __and__(self, other: Characters) -> Characters:
        return ~(~self | ~other)

    def __invert__(self) -> Characters:
        bounds = self.bounds[1:] if self.bounds[:1] == (0,) else (0, *self.bounds)
        return Characters(bounds[:-1] if bounds[-1:] == (_END,) else (*bounds, _END))

    @property
    def ranges(self) -> Iterable[tuple[int, int]]:
        return ((first, end - 1) for first, end in zip(self.bounds[::2], self.bounds[1::2], strict=True))

    def in_any_case(self) -> Characters:
        """Return the set with the other case of each ASCII letter in it, as CASE_INSENSITIVE alone has it."""
        other = [(code ^ 0x20, code ^ 0x20) for code in (*_codes(_UPPER), *_codes(_LOWER)) if code in self]
        return Characters.of(*self.ranges, *other)


def _codes(characters: Characters) -> Iterable[int]:
    return (code for first, last in characters.ranges for code in range(first, last + 1))


def _ascii(*ranges: str) -> Characters:
    return Characters.of(*((ord(span[0]), ord(span[-1])) for span in ranges))


ALL: Final = Characters.of((0, _END - 1))
_LOWER: Final = _ascii("az")
_UPPER: Final = _ascii("AZ")
DIGITS: Final = _ascii("09")
WORD: Final = _ascii("az", "AZ", "_", "09")
SPACES: Final = Characters.among(" \t\n\x0b\f\r")
HORIZONTAL: Final = Characters.among(" \t\xa0\u1680\u180e\u202f\u205f\u3000") | Characters.of((0x2000, 0x200A))
VERTICAL: Final = Characters.among("\n\x0b\f\r\x85\u2028\u2029")
LINE_ENDS: Final = Characters.among("\n\r\x85\u2028\u2029")

_PUNCTUATION: Final = _ascii("!/", ":@", "[`", "{~")
ASCII_CLASSES: Final = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": Characters.of((0, 0x7F)),
    "Alpha": _LOWER | _UPPER,
    "Digit": DIGITS,
    "Alnum": _LOWER | _UPPER | DIGITS,
    "Punct": _PUNCTUATION,
    "Graph": _ascii("!~"),
    "Print": _ascii(" ~"),
    "Blank": Characters.among(" \t"),
    "Cntrl": Characters.of((0, 0x1F), (0x7F, 0x7F)),
    "XDigit": _ascii("09", "af", "AF"),
    "Space": SPACES,
}
CATEGORIES: Final = frozenset(
    [
        "L",
        "M",
        "N",
        "Z",
        "C",
        "P",
        "S",
        "Lu",
        "Ll",
        "Lt",
        "Lm",
        "Lo",
        "Mn",
        "Me",
        "Mc",
        "Nd",
        "Nl",
        "No",
        "Zs",
        "Zl",
        "Zp",
        "Cc",
        "Cf",
        "Co",
        "Cs",
        "Cn",
        "Pd",
        "Ps",
        "Pe",
        "Pc",
        "Po",
        "Sm",
        "Sc",
        "Sk",
        "So",
        "Pi",
        "Pf",
    ]
)


@cache
def category(name: str) -> Characters:
    """Return the characters of one of Unicode's general categories, or of a group of them."""
    bounds = []
    is_inside = False
    for code in range(_END):
        if unicodedata.category(chr(code)).startswith(name) != is_inside:
            is_inside = not is_inside
            bounds.append(code)
    return Characters((*bounds, _END) if is_inside else tuple(bounds))


def is_word_at_boundary(character: str) -> bool:
    """Return whether `\\b` of Java up to 18 takes a character as a part of a word: letters of all scripts are."""
    return character == "_" or unicodedata.category(character) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd")
