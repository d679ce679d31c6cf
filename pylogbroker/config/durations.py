"""Durations as users write them: `500ms`, `90s`, `15m`, `12h`, `7d`, `2w`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

UNITS_MS: Final[Mapping[str, int]] = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
"""Milliseconds of each unit."""

_DURATION: Final = re.compile(r"(\d{1,15})\s*([a-z]*)", re.ASCII)


def milliseconds(text: str, units: Mapping[str, int] = UNITS_MS) -> int | None:
    """Return the milliseconds of a whole number with a unit; None for any other text."""
    match = _DURATION.fullmatch(text)
    return None if match is None or match[2] not in units else int(match[1]) * units[match[2]]
