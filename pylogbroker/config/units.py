"""Units in values of settings: `retention.ms=7d`, `segment.bytes=1GB`, which brokers take as plain numbers."""

from __future__ import annotations

import re
from typing import Final

from pylogbroker.config import durations
from pylogbroker.java.text import is_digits

_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = re.compile(r"(\d{1,15})\s*([kmgt]?)(?:i?b)?")
_TIMES_MS: Final = {"ms": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000}
_SIZE_NAMES: Final = ("bytes", "size", "byte_rate")


def size_in_bytes(text: str) -> int | None:
    """Return the bytes of a text such as 64MB, by powers of two; None for any other text."""
    match = _SIZE.fullmatch(text.strip().lower())
    return None if match is None else int(match[1]) * _SIZES[match[2]]


def without_unit(name: str, text: str) -> str:
    """Return the value of a setting as brokers take it: a plain number in place of a time or a size with a unit.

    Any other text stays as it is.
    """
    plain = text.strip()
    if is_digits(plain):
        return text
    number: int | None = None
    unit = unit_ms(name)
    if unit is not None:
        span_ms = durations.milliseconds(plain.lower())
        if span_ms is not None and span_ms % unit == 0:
            number = span_ms // unit
    elif is_size(name):
        number = size_in_bytes(plain)
    return text if number is None else str(number)


def is_size(name: str) -> bool:
    """Return whether a setting is a number of bytes, by its name."""
    return name.endswith(_SIZE_NAMES)


def unit_ms(name: str) -> int | None:
    """Return the milliseconds of the unit that a setting's name ends with; None for a setting that is no time."""
    *_, unit = re.split(r"[._]", name)
    return _TIMES_MS.get(unit)
