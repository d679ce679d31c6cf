"""Java's regular expressions, matched in time that grows with the text's length, and no faster.

`Pattern` compiles the tree of `pattern_syntax` to instructions and tries them as Java does: in the order of
alternatives, and backwards where one fails. An instruction that once failed at a place of the text is not tried there
again. This excludes the exponential time that `re` and Java need for some patterns. Without back references, a match
from there on depends on nothing else. `STEPS_MAX` bounds the work of one call.

The text is a sequence of code points. Captures are those of Java, except for the groups in `uncertain`. Where Java goes
back behind a repetition, an atomic group or look-ahead, it does not always restore their groups.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs

from pylogbroker.java import pattern_syntax as syntax
from pylogbroker.java.characters import LINE_ENDS, is_word_at_boundary
from pylogbroker.java.pattern_syntax import Node, PatternError

STEPS_MAX: Final = 20_000
"""Instructions of one call, about 10 ms; names with few thousand characters need fewer."""

_INSTRUCTIONS_MAX: Final = 5_000

_ONE, _SPLIT, _JUMP, _SAVE, _AT, _ATOMIC, _AHEAD, _NOT_AHEAD, _END = range(9)

_Instruction = tuple[int, Any, int]

Captures = tuple[int, ...]
"""Start and end of each group, with the whole match first; -1 for groups that took no part."""


class TooManySteps(Exception):
    """A text takes too many steps to match."""


@attrs.frozen
class Found:
    """Match with its groups."""

    text: str
    captures: Captures

    @property
    def start(self) -> int:
        return self.captures[0]

    @property
    def end(self) -> int:
        return self.captures[1]

    def group(self, number: int) -> str | None:
        start, end = self.captures[2 * number : 2 * number + 2]
        return None if start < 0 else self.text[start:end]


@attrs.frozen
class Pattern:
    """A compiled expression; `names` are the numbers of named groups."""

    text: str
    groups: int
    names: dict[str, int]
    uncertain: frozenset[int]
    _program: list[_Instruction] = attrs.field(repr=False)

    @classmethod
    def compile(cls, text: str) -> Pattern:
        """Compile a pattern; raise PatternError, which names what is wrong or not supported."""
        try:
            parsed = syntax.parse(text)
            program = _Compiler().compiled(parsed.root)
        except RecursionError:
            raise PatternError("groups are nested too deeply") from None
        return cls(text, parsed.groups, parsed.names, frozenset(_uncertain(parsed.root)), program)

    def full_match(self, text: str) -> Found | None:
        """Match the whole text, as Matcher.matches; raise TooManySteps."""
        return _Run(self._program, text, self.groups).attempt(0, whole=True)

    def find_all(self, text: str, steps_max: int = STEPS_MAX) -> Iterator[Found]:
        """Find matches from the left, as repeated Matcher.find does; raise TooManySteps."""
        run = _Run(self._program, text, self.groups, steps_max)
        start = 0
        while start <= len(text):
            match = run.attempt(start)
            if match is None:
                start += 1
            else:
                yield match
                run.forget()
                start = match.end if match.end > match.start else match.end + 1


def _captures(node: Node) -> Iterator[int]:
    match node:
        case syntax.Capture(number, body):
            yield number
            yield from _captures(body)
        case syntax.Sequence(parts) | syntax.Choice(parts):
            for part in parts:
                yield from _captures(part)
        case syntax.Repeat(body) | syntax.Atomic(body) | syntax.Ahead(body):
            yield from _captures(body)


def _uncertain(node: Node) -> Iterator[int]:
    """Find groups within repetitions, but for those repeated themselves, within atomic groups and look-ahead."""
    match node:
        case syntax.Repeat(syntax.Capture(_, body), _, most) if most != 1:
            yield from _captures(body)
        case syntax.Repeat(body, _, most) if most != 1:
            yield from _captures(body)
        case syntax.Atomic(body) | syntax.Ahead(body):
            yield from _captures(body)
        case syntax.Sequence(parts) | syntax.Choice(parts):
            for part in parts:
                yield from _uncertain(part)
        case syntax.Repeat(body) | syntax.Capture(_, body):
            yield from _uncertain(body)


class _Compiler:
    def __init__(self) -> None:
        self._program: list[_Instruction] = []

    def compiled(self, root: Node) -> list[_Instruction]:
        self._add(root)
        self._emit(_END)
        return self._program

    def _emit(self, operation: int, value: Any = None, other: int = 0) -> int:
        if len(self._program) >= _INSTRUCTIONS_MAX:
            raise PatternError("the pattern is too long, or repeats too much")
        self._program.append((operation, value, other))
        return len(self._program) - 1

    def _set(self, place: int, operation: int, value: Any, other: int = 0) -> None:
        self._program[place] = operation, value, other

    def _add(self, node: Node) -> None:
        match node:
            case syntax.One(characters):
                self._emit(_ONE, characters)
            case syntax.Assertion(kind):
                self._emit(_AT, _ASSERTIONS[kind])
            case syntax.Sequence(items):
                for item in items:
                    self._add(item)
            case syntax.Choice(options):
                self._add_choice(options)
            case syntax.Capture(number, body):
                self._emit(_SAVE, 2 * number)
                self._add(body)
                self._emit(_SAVE, 2 * number + 1)
            case syntax.Repeat():
                self._add_repeat(node)
            case syntax.Atomic(body):
                self._add_apart(_ATOMIC, body)
            case syntax.Ahead(body, is_negative):
                self._add_apart(_NOT_AHEAD if is_negative else _AHEAD, body)

    def _add_apart(self, operation: int, body: Node) -> None:
        """Add a body that is matched by itself, up to an _END of its own."""
        place = self._emit(operation)
        self._add(body)
        self._emit(_END)
        self._set(place, operation, len(self._program))

    def _add_choice(self, options: tuple[Node, ...]) -> None:
        jumps = []
        for option in options[:-1]:
            split = self._emit(_SPLIT)
            self._add(option)
            jumps.append(self._emit(_JUMP))
            self._set(split, _SPLIT, split + 1, len(self._program))
        self._add(options[-1])
        for jump in jumps:
            self._set(jump, _JUMP, len(self._program))

    def _add_repeat(self, node: syntax.Repeat) -> None:
        for _ in range(node.least):
            self._add(node.body)
        if node.most is None:
            split = self._emit(_SPLIT)
            self._add(node.body)
            self._emit(_JUMP, split)
            self._split(split, node.is_lazy)
            return
        splits = []
        for _ in range(node.most - node.least):
            splits.append(self._emit(_SPLIT))
            self._add(node.body)
        for split in splits:
            self._split(split, node.is_lazy)

    def _split(self, place: int, is_lazy: bool) -> None:
        """Choose between the body behind `place` and the end of the program."""
        body, end = place + 1, len(self._program)
        self._set(place, _SPLIT, end if is_lazy else body, body if is_lazy else end)


class _Run:
    """Attempts at one text."""

    def __init__(self, program: list[_Instruction], text: str, groups: int, steps_max: int = STEPS_MAX) -> None:
        self._program, self._text = program, text
        self._steps_max = steps_max
        self._codes = list(map(ord, text))
        self._unset = (-1,) * (2 * groups + 2)
        self._steps = 0
        self._failed: set[tuple[int, int]] = set()

    def forget(self) -> None:
        """Try all again: after a match, not all that was tried has failed."""
        self._failed = set()

    def attempt(self, start: int, whole: bool = False) -> Found | None:
        match = self._run(0, start, self._unset, self._failed, whole)
        return None if match is None else Found(self._text, (start, match[0], *match[1][2:]))

    def _run(
        self, first: int, start: int, captures: Captures, tried: set[tuple[int, int]], whole: bool = False
    ) -> tuple[int, Captures] | None:
        """Run from an instruction to its _END; return the place behind the match, and captures."""
        program, codes, size = self._program, self._codes, len(self._codes)
        waiting = [(first, start, captures)]
        while waiting:
            at, place, captures = waiting.pop()
            while (at, place) not in tried:
                tried.add((at, place))
                self._steps += 1
                if self._steps > self._steps_max:
                    raise TooManySteps
                operation, value, other = program[at]
                at += 1
                if operation == _ONE:
                    if place >= size or codes[place] not in value:
                        break
                    place += 1
                elif operation == _SPLIT:
                    waiting.append((other, place, captures))
                    at = value
                elif operation == _JUMP:
                    at = value
                elif operation == _SAVE:
                    captures = (*captures[:value], place, *captures[value + 1 :])
                elif operation == _AT:
                    if not value(self._text, place):
                        break
                elif operation == _END:
                    if whole and place != size:
                        break
                    return place, captures
                else:
                    inner = self._run(at, place, captures, set())
                    if (inner is None) != (operation == _NOT_AHEAD):
                        break
                    if inner is not None:
                        place, captures = (inner[0] if operation == _ATOMIC else place), inner[1]
                    at = value
        return None


def _is_line_end(text: str, place: int) -> bool:
    """Return whether a place is the end, or before a line terminator that ends the text."""
    rest = text[place : place + 3]
    if rest == "\n":
        return text[place - 1 : place] != "\r"
    return rest in ("", "\r\n") or (len(rest) == 1 and ord(rest) in LINE_ENDS)


def _is_boundary(text: str, place: int) -> bool:
    return _is_word(text, place - 1) != _is_word(text, place)


def _is_word(text: str, place: int) -> bool:
    """Return whether the character at a place belongs to a word; marks do behind a letter or digit."""
    while 0 <= place < len(text):
        if is_word_at_boundary(text[place]):
            return True
        if unicodedata.category(text[place]) != "Mn":
            return False
        place -= 1
        if place >= 0 and text[place] == "_":
            return False
    return False


_ASSERTIONS: Final[dict[str, Callable[[str, int], bool]]] = {
    "begin": lambda text, place: place == 0,
    "end": lambda text, place: place == len(text),
    "line end": _is_line_end,
    "boundary": _is_boundary,
    "no boundary": lambda text, place: not _is_boundary(text, place),
}
