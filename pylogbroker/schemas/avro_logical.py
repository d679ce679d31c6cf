"""Logical types of Avro as JSON: times as ISO 8601, decimals as numbers with all digits, UUIDs as text.

A moment that Python's calendar does not have (years 1 to 9999) stays a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pylogbroker.schemas.errors import Unencodable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_UNITS: Final = {"millis": 3, "micros": 6, "nanos": 9}
_DAY_SECONDS: Final = 86400
_FRACTION: Final = re.compile(r"[.,]([0-9]+)")
_DIGITS_MAX: Final = 4000


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


def number_of(logical: str) -> Callable[[str, str], int] | None:
    """Return what reads a text of a logical type, given with its path; None for a type without texts."""
    if logical == "date":
        return _date_number
    name, _, unit = logical.rpartition("-")
    if unit in _UNITS and name in ("time", "timestamp", "local-timestamp"):
        digits = _UNITS[unit]
        if name == "time":
            return lambda text, path: _time_number(text, path, digits)
        return lambda text, path: _moment_number(text, path, digits)
    return None


def _date_number(text: str, path: str) -> int:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:
        raise Unencodable(path, f'{text!r} is no date: expected a text like "2026-11-28"') from None


def _time_number(text: str, path: str, digits: int) -> int:
    try:
        clock = time.fromisoformat(_FRACTION.sub("", text))
    except ValueError:
        raise Unencodable(path, f'{text!r} is no time of day: expected a text like "09:30:00.5"') from None
    seconds = clock.hour * 3600 + clock.minute * 60 + clock.second
    return seconds * int(10**digits) + _fraction(text, path, digits)


def _moment_number(text: str, path: str, digits: int) -> int:
    """A time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(_FRACTION.sub("", text))
    except ValueError:
        raise Unencodable(path, f'{text!r} is no time: expected a text like "2026-11-28T07:00:00Z"') from None
    elapsed = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    seconds = elapsed.days * _DAY_SECONDS + elapsed.seconds
    return seconds * int(10**digits) + _fraction(text, path, digits)


def _fraction(text: str, path: str, digits: int) -> int:
    match = _FRACTION.search(text)
    if match is None:
        return 0
    if match[1][digits:].strip("0"):
        raise Unencodable(path, f"{text!r} has more than {digits} digits of a second: some would get lost")
    return int(match[1][:digits].ljust(digits, "0"))


def decimal_text(unscaled: bytes, scale: int) -> str:
    """Return a decimal as a number of JSON, with as many digits behind the point as its scale; raise ValueError."""
    number = int.from_bytes(unscaled, "big", signed=True)
    if not scale:
        return str(number)
    digits = str(abs(number)).zfill(scale + 1)
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def unscaled_decimal(value: Any, path: str, precision: int, scale: int) -> int:
    """Return the unscaled number of a decimal, given as a number or a text."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise InvalidOperation
        sign, digits, exponent = Decimal(value).as_tuple()
        if not isinstance(exponent, int) or abs(exponent) > _DIGITS_MAX:
            raise InvalidOperation
    except InvalidOperation:
        raise Unencodable(path, f'{value!r} is no decimal: expected a number, or a text like "12.50"') from None
    number = int("".join(map(str, digits)) or "0")
    shift = exponent + scale
    unscaled, rest = (number * int(10**shift), 0) if shift >= 0 else divmod(number, int(10**-shift))
    if rest:
        raise Unencodable(path, f"{value} has more than {scale} digits behind the point, which is the schema's scale")
    if unscaled >= 10**precision:
        raise Unencodable(path, f"{value} has more than {precision} digits, which is the schema's precision")
    return -unscaled if sign else unscaled
