"""Parses those regular expressions of Java that can be matched exactly as in Java; others are errors.

Errors name these constructs, although Java has them:

- back references, look-behind, `\\G`, `\\X`, `\\N` and `\\b{g}`;
- flags other than `i` and `s`, and properties other than the POSIX classes and general categories;
- `[^...]` with a class in it, which depends on Java's release;
- `&&` before both characters and a class;
- repetitions of `\\R`, or of an expression that may match nothing.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

import attrs

from pylogbroker.java import characters
from pylogbroker.java.characters import Characters

_COPIES_MAX: Final = 1000
"""Largest number in braces."""

_ENDLESS: Final = None
_CLASSES: Final = {
    "d": characters.DIGITS,
    "w": characters.WORD,
    "s": characters.SPACES,
    "h": characters.HORIZONTAL,
    "v": characters.VERTICAL,
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ASSERTIONS: Final = {"b": "boundary", "B": "no boundary", "A": "begin", "z": "end", "Z": "line end"}
_NOT_READ: Final = {
    "G": "\\G",
    "X": "\\X",
    "N": "names of characters",
    "k": "back references",
    **dict.fromkeys("123456789", "back references"),
}
_BRACES: Final = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}")
_HEX: Final = re.compile(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,8})\}|u([0-9a-fA-F]{4})")
_OCTAL: Final = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})")
_NAME: Final = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>")
_PROPERTY: Final = re.compile(r"\{([^}]*)\}|([A-Z])")
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)


class PatternError(ValueError):
    """A text is not a regular expression of Java, or is not read here as Java reads it."""


@attrs.frozen
class One:
    """One character of a set."""

    characters: Characters


@attrs.frozen
class Assertion:
    """Place that has a property; `kind` is a value of `_ASSERTIONS`."""

    kind: str


@attrs.frozen
class Sequence:
    items: tuple[Node, ...] = ()


@attrs.frozen
class Choice:
    """Alternatives, the first of which that leads to a match counts."""

    options: tuple[Node, ...]


@attrs.frozen
class Capture:
    number: int
    body: Node


@attrs.frozen
class Repeat:
    body: Node
    least: int
    most: int | None
    is_lazy: bool = False


@attrs.frozen
class Atomic:
    """Match of the body that is not tried again in another way."""

    body: Node


@attrs.frozen
class Ahead:
    """Look-ahead."""

    body: Node
    is_negative: bool


Node = One | Assertion | Sequence | Choice | Capture | Repeat | Atomic | Ahead


_LINE_BREAK: Final = Choice(
    (Sequence((One(Characters.among("\r")), One(Characters.among("\n")))), One(characters.VERTICAL))
)


@attrs.frozen
class Parsed:
    root: Node
    groups: int
    names: dict[str, int]


def parse(text: str) -> Parsed:
    """Parse a pattern; raise PatternError."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise PatternError("half of a surrogate pair is not read here")
    parser = _Parser(_unquoted(text))
    root = parser.choice()
    if parser.position < len(parser.text):
        raise PatternError(f"unmatched closing ')' at {parser.position}")
    return Parsed(root, parser.groups, parser.names)


def _unquoted(text: str) -> str:
    """Replace the quotations of `\\Q...\\E` by escaped characters."""

    def escaped(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        return "".join(f"\\x{{{ord(character):x}}}" for character in match[1])

    return _QUOTED.sub(escaped, text)


def is_nullable(node: Node) -> bool:
    """Return whether a node may match no character."""
    match node:
        case One():
            return False
        case Sequence(items):
            return all(map(is_nullable, items))
        case Choice(options):
            return any(map(is_nullable, options))
        case Repeat(body, least):
            return least == 0 or is_nullable(body)
        case Capture(_, body) | Atomic(body):
            return is_nullable(body)
        case _:
            return True


@attrs.define
class _Parser:
    text: str
    position: int = 0
    groups: int = 0
    names: dict[str, int] = attrs.field(factory=dict)
    ignores_case: bool = False
    dot_is_all: bool = False

    def choice(self) -> Node:
        """Parse alternatives up to the group's end; flags that are set within hold up to there."""
        flags = self.ignores_case, self.dot_is_all
        options = [self.sequence()]
        while self._take("|"):
            options.append(self.sequence())
        self.ignores_case, self.dot_is_all = flags
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self) -> Node:
        items: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            item = self.item()
            if item is not None:
                items.append(self.repeated(item))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def item(self) -> Node | None:
        """Parse what a quantifier may follow; None for flags."""
        character = self._next()
        match character:
            case "(":
                return self.group()
            case "[":
                return One(self.character_class())
            case "\\":
                return self.escape()
            case ".":
                return One(characters.ALL if self.dot_is_all else ~characters.LINE_ENDS)
            case "^":
                return Assertion("begin")
            case "$":
                return Assertion("line end")
            case "*" | "+" | "?" | "{":
                self._fail(f"dangling {character!r}")
            case _:
                return self._one(character)

    def group(self) -> Node | None:
        if not self._take("?"):
            return self._capture()
        if self.text.startswith(("<=", "<!"), self.position):
            self._fail("look-behind is not read here")
        if self._take("<"):
            self.position -= 1
            name = _NAME.match(self.text, self.position)
            if name is None or name[1] in self.names:
                self._fail("bad or repeated name of a group")
            self.position = name.end()
            self.names[name[1]] = self.groups + 1
            return self._capture()
        for sign, is_negative in (("=", False), ("!", True)):
            if self._take(sign):
                return Ahead(self._body(), is_negative)
        if self._take(">"):
            return Atomic(self._body())
        return self._flags()

    def _capture(self) -> Node:
        self.groups += 1
        number = self.groups
        return Capture(number, self._body())

    def _body(self) -> Node:
        body = self.choice()
        if not self._take(")"):
            self._fail("unclosed group")
        return body

    def _flags(self) -> Node | None:
        before, value = (self.ignores_case, self.dot_is_all), True
        while (character := self._next()) not in (")", ":"):
            if character == "-" and value:
                value = False
            elif character == "i":
                self.ignores_case = value
            elif character == "s":
                self.dot_is_all = value
            else:
                self._fail(f"{'the flag ' + character if character else 'an unclosed group'} is not read here")
        if character == ")":
            return None
        body = self._body()
        self.ignores_case, self.dot_is_all = before
        return body

    def repeated(self, body: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return body
        least, most = bounds
        if most != 1 and is_nullable(body):
            self._fail("a repetition of an expression that may match nothing is not read here")
        if body is _LINE_BREAK:
            self._fail("a repetition of \\R is not read here")
        if self._take("+"):
            repeated: Node = Atomic(Repeat(Atomic(body), least, most))
        else:
            repeated = Repeat(body, least, most, self._take("?"))
        if self._peek() in ("*", "+", "?", "{") and self._peek():
            self._fail("dangling quantifier behind a quantifier")
        return repeated

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, least, most in (("*", 0, _ENDLESS), ("+", 1, _ENDLESS), ("?", 0, 1)):
            if self._take(sign):
                return least, most
        if self._peek() != "{":
            return None
        braces = _BRACES.match(self.text, self.position)
        if braces is None:
            self._fail("illegal repetition")
        self.position = braces.end()
        least = int(braces[1])
        upper = int(braces[3]) if braces[3] else _ENDLESS if braces[2] else least
        if max(least, upper or 0) > _COPIES_MAX:
            self._fail(f"a repetition of more than {_COPIES_MAX} times is not read here")
        if upper is not None and upper < least:
            self._fail("illegal repetition")
        return least, upper

    def escape(self) -> Node:
        character = self._peek()
        if character in _ASSERTIONS:
            self.position += 1
            if self._peek() == "{":
                self._fail(f"\\{character}{{ is not read here")
            return Assertion(_ASSERTIONS[character])
        if self._take("R"):
            return _LINE_BREAK
        escaped = self._escaped()
        return self._one(escaped) if isinstance(escaped, str) else One(escaped)

    def _escaped(self) -> Characters | str:
        """Return the set or the character that a backslash begins."""
        character = self._next()
        if character in ("p", "P"):
            return self._property(is_negative=character == "P")
        if character.lower() in _CLASSES and character:
            charset = _CLASSES[character.lower()]
            return charset if character.islower() else ~charset
        if character in _NOT_READ:
            self._fail(f"no {_NOT_READ[character]} here")
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "c":
            return chr(ord(self._next() or self._fail("illegal control escape")) ^ 64)
        if character in ("x", "u", "0"):
            return self._number()
        if not character or (character.isascii() and character.isalpha()):
            self._fail("illegal escape")
        return character

    def _number(self) -> str:
        self.position -= 1
        match = _HEX.match(self.text, self.position) or _OCTAL.match(self.text, self.position)
        if match is None:
            self._fail("illegal escape")
        self.position = match.end()
        code = int(match[1], 8) if match.re is _OCTAL else int(match[1] or match[2] or match[3], 16)
        if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
            self._fail("half of a surrogate pair is not read here")
        return chr(code)

    def _property(self, is_negative: bool) -> Characters:
        match = _PROPERTY.match(self.text, self.position)
        if match is None:
            self._fail("illegal property")
        self.position = match.end()
        name = match[1] if match[2] is None else match[2]
        charset = characters.ASCII_CLASSES.get(name)
        if charset is None and name.removeprefix("Is") in characters.CATEGORIES:
            charset = characters.category(name.removeprefix("Is"))
        if charset is None or (self.ignores_case and name.removeprefix("Is") in ("Lower", "Upper", "Lu", "Ll", "Lt")):
            self._fail(f"the property {name} is not read here" + (" together with the flag i" if charset else ""))
        return ~charset if is_negative else charset

    def _one(self, character: str) -> One:
        return One(self._cased(Characters.among(character)))

    def character_class(self) -> Characters:
        """Parse the rest of `[...]`."""
        is_negative = self._take("^")
        charset, has_class = self._union()
        while self.text.startswith("&&", self.position):
            self.position += 2
            if self._peek() == "&":
                self._fail("'&&&' is not read here")
            right, with_class = self._intersected()
            charset, has_class = charset & right, has_class or with_class
        if not self._take("]"):
            self._fail("unclosed character class")
        if is_negative and has_class:
            self._fail("[^...] with a class in it is not read here: it depends on Java's release")
        return ~charset if is_negative else charset

    def _union(self) -> tuple[Characters, bool]:
        """Parse characters, ranges and classes up to `]` or `&&`; return True if there are classes."""
        charset, is_empty, has_class = Characters(), True, False
        while self._peek() not in ("", "]") and not self.text.startswith("&&", self.position):
            if self._take("["):
                charset, has_class = charset | self.character_class(), True
            else:
                charset |= self._range()
            is_empty = False
        if is_empty:
            self._fail("']', '&&' or nothing at the begin of a character class")
        return charset, has_class

    def _intersected(self) -> tuple[Characters, bool]:
        """Parse the right side of `&&`: one class, or characters and ranges."""
        start = self.position
        charset, has_class = self._union()
        if has_class and not (self.text[start] == "[" and self._is_one_class(start)):
            self._fail("'&&' before characters and a class together is not read here")
        return charset, has_class

    def _is_one_class(self, start: int) -> bool:
        again = _Parser(self.text, start + 1)
        again.character_class()
        return again.position == self.position

    def _range(self) -> Characters:
        first = self._escaped() if self._take("\\") else self._next()
        if isinstance(first, Characters):
            return first
        if self._peek() != "-" or self.text[self.position + 1 : self.position + 2] in ("", "]", "["):
            return self._cased(Characters.among(first))
        self.position += 1
        last = self._escaped() if self._take("\\") else self._next()
        if isinstance(last, Characters) or last < first:
            self._fail("illegal range of characters")
        return self._cased(Characters.of((ord(first), ord(last))))

    def _cased(self, charset: Characters) -> Characters:
        return charset.in_any_case() if self.ignores_case else charset

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _next(self) -> str:
        character = self._peek()
        self.position += len(character)
        return character

    def _take(self, sign: str) -> bool:
        if self._peek() != sign:
            return False
        self.position += 1
        return True

    def _fail(self, why: str) -> NoReturn:
        raise PatternError(f"{why}, at {max(self.position - 1, 0)}")
