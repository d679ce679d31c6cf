"""Durations of ISO 8601 as Java's Duration.parse reads them: PT30S, PT1H30M, P2DT4H, PT0.5S.

Negative parts, which Java allows, are none: settings have no negative durations.
"""

from __future__ import annotations

import re
from typing import Final

_DURATION: Final = re.compile(
    r"P(?:([0-9]{1,9})D)?(T(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})(?:[.,]([0-9]{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_MS_OF_PARTS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


def milliseconds_of(text: str) -> int | None:
    """Return the whole milliseconds of a duration; None for another text."""
    match = _DURATION.fullmatch(text)
    if match is None or match[2] in ("T", "t"):
        return None
    days, _, hours, minutes, seconds, fraction = match.groups()
    parts = (days, hours, minutes, seconds)
    if not any(parts):
        return None
    total = sum(int(part or 0) * factor for part, factor in zip(parts, _MS_OF_PARTS, strict=True))
    return total + int((fraction or "").ljust(9, "0")) // 1_000_000
