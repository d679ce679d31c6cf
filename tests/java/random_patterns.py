"""Random regular expressions in Java's syntax, and texts that they may match."""

from __future__ import annotations

from random import Random
from typing import Final

_ATOMS: Final = (
    *("a", "b", "c", "A", "B", ",", "=", "-", "_", "k", "é", "\u212a", "\u017f", "\U0001f600", " ", "}", "]", "&"),
    *(r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\h", r"\H", r"\v", r"\V", r"\R", ".", ".", "."),
    *(r"\p{Alpha}", r"\p{Upper}", r"\P{Lower}", r"\p{Punct}", r"\p{L}", r"\p{IsLu}", r"\PN", r"\pL", r"\p{Print}"),
    *(r"\x61", r"\x{1F600}", r"\u00e9", r"\0141", r"\ca", r"\t", r"\-", r"\.", r"\Qa.b*\E", r"\Q\E", r"\Qé\E"),
)
_ZERO_WIDTH: Final = ("^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z")
_MEMBERS: Final = (
    *(
        "a",
        "b",
        "k",
        "a-c",
        "A-Z",
        "a-z",
        "0-9",
        "_",
        ".",
        ",",
        "-",
        "é",
        "^",
        "&",
        "$",
        "(",
        "*",
        "\u212a",
        "\x80-\xff",
    ),
    *(r"\w", r"\d", r"\s", r"\W", r"\D", r"\p{Alpha}", r"\P{Alpha}", r"\p{Lu}", r"\]", r"\x41-\x43", r"\Qa-c\E", r"\h"),
    *("[b-k]", r"[^a\s]", "[&&a]", "&&", "&&[a-f]", "&&[^b]", "&&a-f", "&&bk", r"&&\w", "-", "--b", "a-", "[", "]"),
)
_QUANTIFIERS: Final = ("*", "+", "?", "{2}", "{1,2}", "{0,1}", "{1,}", "{0}", "{,2}", "{2,1}", "**")
_GROUPS: Final = (
    *("(", "(", "(", "(?:", "(?:", "(?i:", "(?s:", "(?-i:", "(?=", "(?!", "(?>", "(?<name>", "(?<=", "(?<n1>"),
    *("(?i)(", "(?si)(?:", "(?m)(", "(?x)("),
)
_LETTERS: Final = (
    "aaabbbcABCk,=-_.*0123 \t\n\r\x0b\f\x85\xa0\u2028\u2029\u180e\u3000"
    "é\u0301\u212a\u017fß\u03c0\u0414\uff41\u0661\u0130&]^$(\x01"
)
TEXTS_OF_ONE: Final = 6


def random_pattern(random: Random, depth: int = 3) -> str:
    options = [
        "".join(_item(random, depth) for _ in range(random.randint(0, 3))) for _ in range(random.choice((1, 1, 2)))
    ]
    return "|".join(options)


def _item(random: Random, depth: int) -> str:
    kind = random.random()
    if kind < 0.08:
        return random.choice(_ZERO_WIDTH)
    if kind < 0.25:
        members = "".join(random.choice(_MEMBERS) for _ in range(random.randint(1, 4)))
        item = f"[{random.choice(('', '', '^'))}{members}]"
    elif kind < 0.55 and depth:
        item = random.choice(_GROUPS) + random_pattern(random, depth - 1) + ")"
    else:
        item = random.choice(_ATOMS)
    if random.random() < 0.4:
        item += random.choice(_QUANTIFIERS) + random.choice(("", "", "?", "+"))
    return item


def random_text(random: Random) -> str:
    letters = random.choice((_LETTERS, "ab", "abk,=", "ab\n\r\u2028", "aB\u212ak", "ab é\u0301_"))
    return "".join(random.choice(letters) for _ in range(random.randint(0, 7)))


def random_cases(seed: int, count: int) -> list[tuple[str, list[str]]]:
    random = Random(seed)
    return [(random_pattern(random), [random_text(random) for _ in range(TEXTS_OF_ONE)]) for _ in range(count)]
