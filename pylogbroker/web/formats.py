"""Texts of numbers, sizes, durations and times, as pages show them: short, and never rounded to 0."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

NOT_KNOWN: Final = "not known"
_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DURATIONS: Final = (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))
_BOTH_UNITS_BELOW: Final = 10
"""Durations of fewer units than this have the next smaller unit, too."""


def count_text(number: int | None) -> str:
    return NOT_KNOWN if number is None else f"{number:,}".replace("-", "\N{MINUS SIGN}")


def size_text(count: int | None) -> str:
    """Return a size with three digits in its largest unit."""
    if count is None:
        return NOT_KNOWN
    size = float(count)
    for unit in _BYTE_UNITS:
        if abs(size) < 1024 or unit == _BYTE_UNITS[-1]:
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{_three_digits(size)} {unit}"


def rate_text(rate: float | None) -> str:
    """Return a number per second, with three digits or more; the empty text if it is not known yet."""
    return "" if rate is None else _three_digits(rate)


def size_rate_text(rate: float | None) -> str:
    return "" if rate is None else f"{size_text(round(rate))}/s"


def range_text(values: Sequence[float]) -> str:
    """Return the smallest and the largest of some numbers of bytes per second."""
    if not values:
        return "no samples yet"
    return f"{size_text(round(min(values)))} to {size_text(round(max(values)))} a second in the last hour"


def _three_digits(number: float) -> str:
    if not number or abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.2g}" if abs(number) < 1 else f"{number:.1f}" if abs(number) >= 10 else f"{number:.3g}"


def duration_text(milliseconds: int | None) -> str:
    """Return a duration in its largest unit, or its two largest; the empty text for none."""
    if milliseconds is None:
        return ""
    seconds = milliseconds // 1000
    for unit, unit_seconds, smaller, smaller_seconds in _DURATIONS:
        if seconds >= unit_seconds:
            whole, part = seconds // unit_seconds, seconds % unit_seconds // smaller_seconds
            return f"{whole:,} {unit} {part} {smaller}" if part and whole < _BOTH_UNITS_BELOW else f"{whole:,} {unit}"
    return f"{milliseconds / 1000:.3g} s"


def number_text(number: float) -> str:
    """Return a number without a fraction that is zero."""
    return str(int(number)) if number.is_integer() else repr(number)


def quota_text(value: float, key: str) -> str:
    """Return a quota in its unit: bytes, percent or a number a second."""
    if key.endswith("byte_rate"):
        return size_rate_text(value)
    number = number_text(round(value, 2))
    return f"{number} %" if key.endswith("percentage") else f"{number}/s"


def time_text(milliseconds: int, is_local: bool = False) -> str:
    """Return a time in UTC, or with the zone's difference in this machine's; a timestamp that is none as its number."""
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
        if is_local:
            time = time.astimezone()
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return "none" if milliseconds < 0 else time.isoformat(" ", "milliseconds").removesuffix("+00:00")


def moment_text(milliseconds: int, is_local: bool = False) -> str:
    """Return the day and the minute of a time; a timestamp that is none as its number."""
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return (time.astimezone() if is_local else time).strftime("%-d %b %Y %H:%M")


def ago_text(milliseconds: int, now_ms: int) -> str:
    """Return how long ago a time was, with a digit after the point below a minute."""
    passed = round(now_ms - milliseconds, -2)
    return f"{duration_text(passed)} ago" if passed >= 0 else f"in {duration_text(-passed)}"


def second_text(milliseconds: int, is_local: bool = False) -> str:
    """Return the hour, the minute and the second of a time."""
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return (time.astimezone() if is_local else time).strftime("%H:%M:%S")


def clock_text(milliseconds: int, is_local: bool = False) -> str:
    """Return the hour and the minute of a time."""
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return (time.astimezone() if is_local else time).strftime("%H:%M")
