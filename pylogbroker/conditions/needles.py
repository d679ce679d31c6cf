"""Bytes that a record must contain to fulfil a condition, so that most records need not be decoded.

    value.customer == "c-3"      c-3, or \\u: JSON may have any character as an escape
    exists value.error           error, or \\u
    value.amount > 10            "amount": and a number that is about as large, or \\u
    key ~ "Eu-"                  eu- in small letters
    A and B                      those of A or of B, whichever are rarer
    A or B                       those of A and of B, if both have some
    not A, offset > 5            none: each record may fulfil it

Needles are looked for in many records at once: they stand in the records' bytes as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from decimal import Decimal
from functools import partial
from math import inf, isfinite
from typing import Final

import attrs

from pylogbroker.conditions.syntax import MIRRORED, All, Any, Comparison, Constant, Exists, Literal, Node, Operand, Path

_ESCAPE: Final = b"\\u"
_PLAIN: Final = re.compile(r'[^"\\/\x00-\x1f\ud800-\udfff\ufffd]+')
"""Characters that JSON can have only as themselves, or by an escape that begins with \\u."""
_TEXT: Final = re.compile("[^\ud800-\udfff\ufffd]+")
_ASCII: Final = re.compile("[\x00-\x7f]+")
_PLAIN_ASCII: Final = re.compile(r"[ !#-.0-\[\]-\x7f]+")
_FLOAT_ERROR: Final = 1e-12
_NUMBER_RARITY: Final = 40
_RARER: Final = 8
"""Factor of a constant's length beside that of a name."""
_FOLDING: Final = {
    "ß": "s",
    "İ": "i",
    "ŉ": "n",
    "\N{LATIN SMALL LETTER LONG S}": "s",
    "ǰ": "j",
    "ẖ": "h",
    "ẗ": "t",
    "ẘ": "w",
    "ẙ": "y",
    "ẚ": "a",
    "ẞ": "s",
    "\N{KELVIN SIGN}": "k",
    "ﬀ": "f",
    "ﬁ": "fi",
    "ﬂ": "fl",
    "ﬃ": "fi",
    "ﬄ": "fl",
    "ﬅ": "st",
    "ﬆ": "st",
}
"""Characters that are not ASCII, and the ASCII that they become if the case of letters does not count."""


@attrs.frozen
class NumberNeedle:
    """Member of JSON with a number from `least` to `greatest`, wide enough for what a float rounds."""

    name: bytes
    least: float
    greatest: float
    pattern: re.Pattern[bytes] = attrs.field(init=False, eq=False)

    @pattern.default
    def _pattern(self) -> re.Pattern[bytes]:
        return re.compile(rb'"%s"[ \t\r\n]*:[ \t\r\n]*(-?[0-9][-+.0-9eE]*)' % re.escape(self.name))

    def find(self, data: bytes, at: int) -> int:
        """Return the place of the next such number, -1 if there is none."""
        least, greatest = self.least, self.greatest
        for match in self.pattern.finditer(data, at):
            try:
                number = float(match[1])
            except ValueError:  # no JSON, which is found out elsewhere
                return match.start()
            if least <= number <= greatest:
                return match.start()
        return -1


@attrs.frozen
class Needles:
    """A record contains one of `exact`, one of `lowered` once its letters of ASCII are small, or one of `numbers`."""

    exact: tuple[bytes, ...] = ()
    lowered: tuple[bytes, ...] = ()
    numbers: tuple[NumberNeedle, ...] = ()
    rarity: int = attrs.field(default=0, eq=False)
    """A longer text is rarer, and a name of a member stands in most records."""

    def places(self, data: bytes) -> Generator[int, int, None]:
        """Yield where needles begin, in order; it is sent the place to go on from."""
        small = data.lower() if self.lowered else b""
        searches: list[Callable[[int], int]] = [partial(data.find, needle) for needle in _possible(self.exact, data)]
        searches += [partial(small.find, needle) for needle in _possible(self.lowered, small)]
        searches += [partial(number.find, data) for number in self.numbers]
        nexts = [find(0) for find in searches]
        while (place := min((place for place in nexts if place >= 0), default=-1)) >= 0:
            behind = yield place
            nexts = [
                find(behind) if 0 <= place < behind else place for find, place in zip(searches, nexts, strict=True)
            ]

    def count_in(self, data: bytes) -> int:
        """Return how often needles are in some bytes, but for those of numbers."""
        small = data.lower() if self.lowered else b""
        exact, lowered = _possible(self.exact, data), _possible(self.lowered, small)
        return sum(map(data.count, exact)) + sum(map(small.count, lowered))

    def are_in(self, data: bytes) -> bool:
        if any(needle in data for needle in _possible(self.exact, data)):
            return True
        if any(number.name in data for number in self.numbers):
            return True
        if not self.lowered:
            return False
        small = data.lower()
        return any(needle in small for needle in _possible(self.lowered, small))

    def __or__(self, other: Needles) -> Needles:
        exact = dict.fromkeys((*self.exact, *other.exact))
        lowered = dict.fromkeys((*self.lowered, *other.lowered))
        return Needles(tuple(exact), tuple(lowered), self.numbers + other.numbers, min(self.rarity, other.rarity))


def _possible(needles: Iterable[bytes], data: bytes) -> Iterator[bytes]:
    """Yield needles whose bytes are all in some data. One byte is found ten times as fast as a text of a few."""
    for needle in needles:
        if all(byte in data for byte in set(needle)):
            yield needle


def needles_of(node: Node) -> Needles | None:
    """Return needles of a condition; None if records without any may fulfil it."""
    match node:
        case Comparison():
            return _of_comparison(node)
        case Exists(path):
            return _of_path(path)
        case All(parts):
            some = [needles for part in parts if (needles := needles_of(part)) is not None]
            return max(some, key=lambda needles: needles.rarity, default=None)
        case Any(parts):
            joined: Needles | None = None
            for part in parts:
                needles = needles_of(part)
                if needles is None:
                    return None
                joined = needles if joined is None else joined | needles
            return joined
    return None


def _of_comparison(node: Comparison) -> Needles | None:
    if node.mark == "!=":
        return None
    mirrored = MIRRORED.get(node.mark, node.mark)
    both = (_of_side(node.mark, node.left, node.right), _of_side(mirrored, node.right, node.left))
    sides = [side for side in both if side is not None]
    return max(sides, key=lambda needles: needles.rarity, default=None)


def _of_side(mark: str, operand: Operand, other: Operand) -> Needles | None:
    """Return needles that a record needs so that one operand may compare with the other one."""
    if not isinstance(operand, Path):
        return None
    by_name = _of_path(operand)
    if isinstance(other, Literal) and (number := _number_needles(mark, operand, other.constant)) is not None:
        return number
    if not isinstance(other, Literal) or not isinstance(other.constant, str) or operand.field == "time":
        return by_name
    is_json = operand.field != "headers" and bool(operand.steps)
    by_text: Needles | None = None
    if mark == "==":
        by_text = _exact(other.constant, is_json)
    elif mark == "~":
        by_text = text_needles(other.constant, is_json)
    if by_text is None:
        return by_name
    return attrs.evolve(by_text, rarity=by_text.rarity * _RARER)


def _number_needles(mark: str, path: Path, constant: Constant) -> Needles | None:
    name = path.steps[-1] if path.steps and path.field != "headers" else None
    is_number = isinstance(constant, int | Decimal) and not isinstance(constant, bool)
    if not is_number or not isinstance(name, str) or not _PLAIN.fullmatch(name):
        return None
    try:
        number = float(constant)  # type: ignore[arg-type]
    except OverflowError:
        return None
    least, greatest = number - abs(number) * _FLOAT_ERROR, number + abs(number) * _FLOAT_ERROR
    if not isfinite(least) or not isfinite(greatest):
        return None
    if mark in ("<", "<="):
        least = -inf
    elif mark in (">", ">="):
        greatest = inf
    return Needles((_ESCAPE,), (), (NumberNeedle(name.encode(), least, greatest),), _NUMBER_RARITY)


def _of_path(path: Path) -> Needles | None:
    if path.field == "headers":
        return _exact(str(path.steps[0]), is_json=False)
    names = [step for step in path.steps if isinstance(step, str)]
    some = [needles for name in names if (needles := _exact(name, is_json=True)) is not None]
    return max(some, key=lambda needles: needles.rarity, default=None)


def _exact(text: str, is_json: bool) -> Needles | None:
    """Return the longest part of a text that stands in the bytes as it is, or escaped if that is possible."""
    parts = (_PLAIN if is_json else _TEXT).findall(text)
    if not parts:
        return None
    longest = max((part.encode() for part in parts), key=len)
    return Needles((longest, _ESCAPE) if is_json else (longest,), (), (), len(longest))


def text_needles(text: str, is_json: bool = False) -> Needles | None:
    """Return needles of records that contain a text, whatever the case of its letters."""
    parts = (_PLAIN_ASCII if is_json else _ASCII).findall(text.casefold())
    if not parts:
        return None
    longest = max(parts, key=len)
    folding = tuple(character.encode() for character, letters in _FOLDING.items() if set(letters) & set(longest))
    return Needles((*folding, _ESCAPE) if is_json else folding, (longest.encode(),), (), len(longest))
