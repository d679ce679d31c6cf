"""Numbers, truth values and lists as `ConfigDef` of Kafka's clients parses them.

| function       | Java                                                    |
|----------------|---------------------------------------------------------|
| trim           | String.trim: removes U+0000 to U+0020, nothing else     |
| parse_whole    | Short.parseShort, Integer.parseInt, Long.parseLong      |
| parse_double   | Double.parseDouble                                      |
| parse_boolean  | `true` and `false` by String.equalsIgnoreCase           |
| split_list     | String.split at commas with whitespace around           |
| render_double  | Double.toString                                         |

In one respect Java reads more. It takes the digits of all scripts in whole numbers, and the long s in `false`. Nobody
writes these, and they look like others, so they are errors here.
"""

from __future__ import annotations

import re
from typing import Final

_TRIMMED: Final = "".join(map(chr, range(0x21)))
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,80}")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEX: Final = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]*)(\.?)([0-9a-fA-F]*)[pP]([+-]?[0-9]+)[fFdD]?")
_NAMED: Final = re.compile(r"[+-]?(?:NaN|Infinity)")
_SEPARATOR: Final = re.compile(r"\s*,\s*", re.ASCII)
_EXPONENT_MAX: Final = 100_000  # beyond, every double of up to _DIGITS_MAX digits is 0 or infinite
_DIGITS_MAX: Final = 1_000
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


def trim(text: str) -> str:
    return text.strip(_TRIMMED)


def is_digits(text: str) -> bool:
    """Return whether a text is a number without a sign, in the digits of ASCII."""
    return text.isascii() and text.isdecimal()


def parse_whole(text: str, bits: int) -> int:
    """Parse a decimal number of so many bits; raise ValueError."""
    if not _WHOLE.fullmatch(text):
        raise ValueError("not a whole number")
    value = int(text)
    limit = 2 ** (bits - 1)
    if not -limit <= value < limit:
        raise ValueError("out of range")
    return value


def parse_double(text: str) -> float:
    """Parse a decimal or hexadecimal number, which may end with f or d; raise ValueError."""
    text = trim(text)
    if len(text) > _DIGITS_MAX:
        raise ValueError("not a number")
    if _NAMED.fullmatch(text) or _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    match = _HEX.fullmatch(text)
    if match is None or not match[2] + match[4]:
        raise ValueError("not a number")
    exponent = max(-_EXPONENT_MAX, min(int(match[5]), _EXPONENT_MAX))
    try:
        return float.fromhex(f"{match[1]}0x{match[2]}{match[3]}{match[4]}p{exponent}")
    except OverflowError:
        return float(f"{match[1]}inf")


def parse_boolean(text: str) -> bool:
    """Parse true or false; raise ValueError."""
    if not text.isascii() or text.lower() not in ("true", "false"):
        raise ValueError("not a truth value")
    return text.lower() == "true"


def split_list(text: str) -> tuple[str, ...]:
    """Split at commas, without the whitespace around them; an empty text is an empty list."""
    return tuple(_SEPARATOR.split(text)) if text else ()


def render_double(value: float) -> str:
    """Return a number as `Double.toString` does: with an exponent below 0.001 and from ten million on."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    digits = exponent = ""
    for places in range(1, 18):
        digits, _, exponent = f"{value:.{places}e}".partition("e")
        if float(f"{digits}e{exponent}") == value:
            break
    return f"{digits}E{int(exponent)}"
