"""Values of JSON as values that Arrow takes, by an Arrow type.

| type                   | JSON                                                                         |
|------------------------|------------------------------------------------------------------------------|
| integers               | number without a fraction, also as text                                      |
| floats                 | number; "NaN", "Infinity", "-Infinity"                                       |
| decimal                | number, all digits, or its text                                              |
| string                 | text; any other value as JSON                                                |
| binary                 | Base64                                                                       |
| date, time, timestamp  | ISO 8601, or a number of the type's units since 1970 or midnight             |
| struct                 | object with no other members; an absent one is null                          |
| map                    | object                                                                       |
| list                   | array                                                                        |
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, NoReturn

import pyarrow as pa

from pylogbroker.errors import ConfigError
from pylogbroker.table.contents import not_utf_8

Convert = Callable[[Any], Any]
_UNITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CONSTANTS: Final = ("NaN", "Infinity", "-Infinity")
_SHOWN_MAX: Final = 60
_DIGITS_MAX: Final = 76  # of decimal256
_PLACES_MAX: Final = 10_000  # zeros at the end may be many


def parsed(text: str | bytes, *, exact: bool) -> Any:
    """Return the value of a JSON text; `exact` keeps the digits of fractions. Raise ValueError or RecursionError."""
    try:
        return json.loads(text, parse_float=Decimal if exact else float, parse_constant=_reject)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not JSON: {not_utf_8(error)}") from None


def _reject(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def has_decimals(kind: pa.DataType) -> bool:
    """Return whether values of a type need all digits of fractions."""
    return pa.types.is_decimal(kind) or any(has_decimals(kind.field(index).type) for index in range(kind.num_fields))


def is_plain(kind: pa.DataType) -> bool:
    """Return whether Arrow's own reader of JSON takes the same values for a type."""
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(is_plain(field.type) for field in kind)
    if pa.types.is_list(kind):
        return is_plain(kind.value_type)
    return kind in (pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.bool_())


def converter(kind: pa.DataType, *, cuts_times: bool = False) -> Convert:
    """Return the function that converts values other than null; it raises ValueError. Raise ConfigError.

    With `cuts_times`, times lose digits that the type does not have; else these are an error.
    """
    convert = _converter(kind, cuts_times)
    return lambda value: None if value is None else convert(value)


def _converter(kind: pa.DataType, cuts_times: bool) -> Convert:
    types = pa.types
    if types.is_struct(kind):
        return _struct(kind, cuts_times)
    if types.is_map(kind):
        member = converter(kind.item_type, cuts_times=cuts_times)
        return lambda value: [(name, member(item)) for name, item in _expect(value, dict, "an object").items()]
    if types.is_list(kind) or types.is_large_list(kind):
        item = converter(kind.value_type, cuts_times=cuts_times)
        return lambda value: [item(element) for element in _expect(value, list, "an array")]
    if types.is_timestamp(kind):
        digits = _UNITS[kind.unit]
        return lambda value: _moment(value, digits, cuts_times)
    if types.is_time(kind):
        digits = _UNITS[kind.unit]
        return lambda value: _clock(value, digits, cuts_times)
    for matches, convert in _SIMPLE:
        if matches(kind):
            return convert
    raise ConfigError(f"JSON cannot be read as {kind}: take a type that has a form in JSON, such as string")


def _struct(kind: pa.StructType, cuts_times: bool) -> Convert:
    members = {field.name: converter(field.type, cuts_times=cuts_times) for field in kind}

    def convert(value: Any) -> dict[str, Any]:
        converted = {}
        for name, member in _expect(value, dict, "an object").items():
            if name not in members:
                raise ValueError(f"it has a member {name[:_SHOWN_MAX]!r}, which the type of the column does not have")
            try:
                converted[name] = members[name](member)
            except ValueError as error:
                raise ValueError(f"{name[:_SHOWN_MAX]}: {error}") from error
        return converted

    return convert


def _expect(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{_shown(value)} is not {name}")
    return value


def _boolean(value: Any) -> bool:
    return bool(_expect(value, bool, "true or false"))


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError(f"{_shown(value)} is no whole number")
    if isinstance(value, Decimal) and value.adjusted() > _DIGITS_MAX:
        raise ValueError(f"{_shown(value)} is too large for a whole number")
    try:
        number = int(value)
    except (ValueError, OverflowError):
        raise ValueError(f"{_shown(value)} is no whole number") from None
    if not isinstance(value, str) and number != value:
        raise ValueError(f"{_shown(value)} is no whole number")
    return number


def _float(value: Any) -> float:
    if isinstance(value, bool) or not (isinstance(value, int | float | Decimal) or value in _CONSTANTS):
        raise ValueError(f"{_shown(value)} is no number")
    return float(value)


def _decimal(value: Any) -> Decimal:
    """Return a number; Arrow crashes by far exponents, and no type of its has that many digits."""
    try:
        number = Decimal(_expect(value, int | float | Decimal | str, "a number"))  # type: ignore[arg-type]
    except ArithmeticError:
        raise ValueError(f"{_shown(value)} is no number") from None
    if not number:
        return Decimal(0)
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and (number.adjusted() > _DIGITS_MAX or exponent < -_PLACES_MAX):
        raise ValueError(f"{_shown(value)} has too many digits for a decimal")
    return number


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:
        return _exact_json(value)


def _exact_json(value: Any) -> str:
    """Return JSON of a value with decimals, which have the digits that they came with."""
    match value:
        case Decimal():
            return str(value)
        case dict():
            return f"{{{', '.join(f'{_exact_json(name)}: {_exact_json(member)}' for name, member in value.items())}}}"
        case list():
            return f"[{', '.join(map(_exact_json, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _bytes(value: Any) -> bytes:
    try:
        return b64decode(_expect(value, str, "a text in Base64"), validate=True)
    except ValueError:
        raise ValueError(f"{_shown(value)} is not Base64") from None


def _date(value: Any) -> int | date:
    return _integer(value) if isinstance(value, int) else date.fromisoformat(_expect(value, str, "a date"))


def _moment(value: Any, digits: int, cuts: bool) -> int:
    """Return units since 1970; a time without an offset is UTC."""
    if isinstance(value, int):
        return _integer(value)
    text, fraction, behind = _fraction(_expect(value, str, "a time"))
    moment = datetime.fromisoformat(text + behind)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * int(10**digits) + _units(value, fraction, digits, cuts)


def _clock(value: Any, digits: int, cuts: bool) -> int:
    """Return units since midnight."""
    if isinstance(value, int):
        return _integer(value)
    text, fraction, behind = _fraction(_expect(value, str, "a time of day"))
    clock = time.fromisoformat(text)
    if behind:
        raise ValueError(f"{_shown(value)} is no time of day")
    return (clock.hour * 3600 + clock.minute * 60 + clock.second) * int(10**digits) + _units(
        value, fraction, digits, cuts
    )


def _fraction(text: str) -> tuple[str, str, str]:
    """Return a time up to its seconds, the digits of their fraction, and what comes behind."""
    begin, dot, rest = text.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return begin, rest[:digits] if dot else "", rest[digits:]


def _units(value: Any, fraction: str, digits: int, cuts: bool) -> int:
    if fraction[digits:].strip("0") and not cuts:
        raise ValueError(f"{_shown(value)} has more digits than the column's type")
    return int(fraction[:digits].ljust(digits, "0") or 0)


def _shown(value: Any) -> str:
    text = _text(value) if not isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


_SIMPLE: Final[tuple[tuple[Callable[[pa.DataType], bool], Convert], ...]] = (
    (pa.types.is_null, lambda value: None),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), _text),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind), _bytes),
    (pa.types.is_date32, _date),
)
