"""Logical types of Avro as JSON: times as ISO 8601, decimals as numbers with all digits, UUIDs as text.

A moment outside of the years 1 to 9999 stays a number. Texts are those of ISO 8601 with all parts, in ASCII digits:
Python's own parsers accept weeks, underscores and the digits of other scripts, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from pylogbroker.json_text import exact_number
from pylogbroker.schemas.avro_schema import PRECISION_MAX
from pylogbroker.schemas.errors import Undecodable, Unencodable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_UNITS: Final = {"millis": 3, "micros": 6, "nanos": 9}
_DAY_SECONDS: Final = 86400
_DAY_TEXT: Final = "(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_CLOCK_TEXT: Final = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?"
_DATE: Final = re.compile(_DAY_TEXT)
_CLOCK: Final = re.compile(_CLOCK_TEXT)
_MOMENT: Final = re.compile(f"{_DAY_TEXT}[Tt ]{_CLOCK_TEXT}(?P<zone>[Zz]|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DECIMAL_BITS_MAX: Final = (10**PRECISION_MAX).bit_length()
_SHOWN_MAX: Final = 60


def number_text(logical: str) -> Callable[[int], str] | None:
    """Return what writes an int or long of a logical type as JSON; None for a type that is unknown."""
    if logical == "date":
        return _date_text
    name, _, unit = logical.rpartition("-")
    if unit in _UNITS and name in ("time", "timestamp", "local-timestamp"):
        digits = _UNITS[unit]
        if name == "time":
            return lambda number: _time_text(number, digits)
        zone = "" if name.startswith("local") else "Z"
        return lambda number: _moment_text(number, digits, zone)
    return None


def _date_text(days: int) -> str:
    try:
        return f'"{date.fromordinal(_EPOCH_DAY + days).isoformat()}"'
    except (ValueError, OverflowError):
        return str(days)


def _time_text(number: int, digits: int) -> str:
    seconds, fraction = divmod(number, 10**digits)
    if not 0 <= seconds < _DAY_SECONDS:
        return str(number)
    return f'"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:0{digits}}"'


def _moment_text(number: int, digits: int, zone: str) -> str:
    seconds, fraction = divmod(number, 10**digits)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return str(number)
    return f'"{moment.strftime("%Y").zfill(4)}{moment:-%m-%dT%H:%M:%S}.{fraction:0{digits}}{zone}"'


def number_of(logical: str) -> Callable[[str], int] | None:
    """Return what reads a text of a logical type; None for a type without texts."""
    if logical == "date":
        return _date_number
    name, _, unit = logical.rpartition("-")
    if unit in _UNITS and name in ("time", "timestamp", "local-timestamp"):
        digits = _UNITS[unit]
        if name == "time":
            return lambda text: _time_number(text, digits)
        if name == "timestamp":
            return lambda text: _moment_number(text, digits)
        return lambda text: _local_number(text, digits)
    return None


def _date_number(text: str) -> int:
    match = _DATE.fullmatch(text)
    try:
        if match is not None:
            return _day(match)
    except ValueError:  # no such month or day
        pass
    raise Unencodable("", f'{_shown(text)} is no date: expected a text like "2026-11-28"')


def _time_number(text: str, digits: int) -> int:
    match = _CLOCK.fullmatch(text)
    seconds = None if match is None else _second(match)
    if match is None or seconds is None:
        raise Unencodable("", f'{_shown(text)} is no time of day: expected a text like "09:30:00.5", without a zone')
    return seconds * int(10**digits) + _fraction(match, text, digits)


def _moment_number(text: str, digits: int) -> int:
    """A time without a zone is UTC."""
    match = _MOMENT.fullmatch(text)
    seconds, offset = (None, 0) if match is None else (_moment(match), _offset(match["zone"]))
    if match is None or seconds is None or offset is None:
        raise Unencodable("", f'{_shown(text)} is no time: expected a text like "2026-11-28T07:00:00Z"')
    return (seconds - offset) * int(10**digits) + _fraction(match, text, digits)


def _local_number(text: str, digits: int) -> int:
    match = _MOMENT.fullmatch(text)
    seconds = None if match is None or match["zone"] else _moment(match)
    if match is None or seconds is None:
        expected = 'expected a text like "2026-11-28T07:00:00", without a zone'
        raise Unencodable("", f"{_shown(text)} is no local time: {expected}")
    return seconds * int(10**digits) + _fraction(match, text, digits)


def _day(match: re.Match[str]) -> int:
    """Return days since 1970; raise ValueError."""
    return date(int(match["year"]), int(match["month"]), int(match["day"])).toordinal() - _EPOCH_DAY


def _second(match: re.Match[str]) -> int | None:
    """Return seconds since midnight."""
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    return hour * 3600 + minute * 60 + second if hour < 24 and minute < 60 and second < 60 else None


def _moment(match: re.Match[str]) -> int | None:
    """Return seconds since 1970 without the zone."""
    try:
        days, seconds = _day(match), _second(match)
    except ValueError:
        return None
    return None if seconds is None else days * _DAY_SECONDS + seconds


def _offset(zone: str | None) -> int | None:
    """Return the seconds that a zone is before UTC."""
    if zone is None or zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        return None
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def _fraction(match: re.Match[str], text: str, digits: int) -> int:
    fraction = match["fraction"] or ""
    if fraction[digits:].strip("0"):
        raise Unencodable("", f"{_shown(text)} has more than {digits} digits of a second: some would get lost")
    return int(fraction[:digits].ljust(digits, "0"))


def decimal_text(unscaled: bytes, scale: int) -> str:
    """Return a decimal as a number of JSON, with as many digits behind the point as its scale; raise Undecodable."""
    number = int.from_bytes(unscaled, "big", signed=True)
    if number.bit_length() > _DECIMAL_BITS_MAX:
        raise Undecodable(f"a decimal has more than {PRECISION_MAX} digits")
    if not scale:
        return str(number)
    digits = str(abs(number)).zfill(scale + 1)
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def unscaled_decimal(value: Any, precision: int, scale: int) -> int:
    """Return the unscaled number of a decimal, given as a number or a text."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = exact_number(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Unencodable("", f'{_shown(value)} is no decimal: expected a number, or a text like "12.50"')
    sign, digits, exponent = Decimal(value).as_tuple()
    if isinstance(exponent, int) and not any(digits):
        return 0
    if not isinstance(exponent, int) or len(digits) + exponent + scale > precision:
        raise Unencodable("", f"{_shown(value)} has more than {precision} digits, which is the schema's precision")
    last = next(place for place, digit in enumerate(reversed(digits)) if digit)  # zeros at the end
    if exponent + last + scale < 0:
        raise Unencodable(
            "", f"{_shown(value)} has more than {scale} digits behind the point, which is the schema's scale"
        )
    number = int("".join(map(str, digits[: len(digits) - last]))) * int(10 ** (exponent + last + scale))
    return -number if sign else number


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
