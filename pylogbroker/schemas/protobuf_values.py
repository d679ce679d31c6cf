"""Checks JSON before Protobuf reads it, which drops or rounds some values without an error.

Protobuf ignores characters of Base64 that are not part of it. As numbers it takes `"1_0"`, digits of all scripts and,
for a double, true. An integer that is written as 9007199254740993.0 is rounded. The value of an Any is not checked.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from pylogbroker.json_text import NumberText, exact_number
from pylogbroker.schemas.errors import Unencodable

_INTEGERS: Final = (
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)
_FLOATS: Final = (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)
_INTEGER: Final = re.compile("-?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BASE64: Final = re.compile("[A-Za-z0-9+/_-]*={0,2}")
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_EXACT_MAX: Final = 2**53
_STANDARD: Final = "google.protobuf."
_WRAPPER: Final = re.compile(r"google\.protobuf\.(Double|Float|U?Int64|U?Int32|Bytes)Value")
_SHOWN_MAX: Final = 60


def check_message(value: Any, message: Any) -> None:
    """Check a value with texts as numbers; raise Unencodable. What Protobuf itself rejects may pass."""
    if _WRAPPER.fullmatch(message.full_name):
        _check_scalar(value, message.fields_by_name["value"])
    elif isinstance(value, dict) and not message.full_name.startswith(_STANDARD):
        for name, member in value.items():
            field = message.fields_by_name.get(name) or message.fields_by_camelcase_name.get(name)
            if field is not None and member is not None:
                try:
                    _check_field(member, field)
                except Unencodable as error:
                    raise error.below(name) from error.__cause__


def _check_field(value: Any, field: Any) -> None:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if is_map and isinstance(value, dict):
        key_field, value_field = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for name, member in value.items():
            try:
                if key_field.cpp_type in _INTEGERS:
                    _check_scalar(name, key_field)
                _check_value(member, value_field)
            except Unencodable as error:
                raise error.below(name) from error.__cause__
    elif isinstance(field.default_value, list) and isinstance(value, list):
        for index, item in enumerate(value):
            try:
                _check_value(item, field)
            except Unencodable as error:
                raise error.below(index) from error.__cause__
    else:
        _check_value(value, field)


def _check_value(value: Any, field: Any) -> None:
    if field.message_type is not None:
        check_message(value, field.message_type)
    else:
        _check_scalar(value, field)


def _check_scalar(value: Any, field: Any) -> None:
    if field.cpp_type in _INTEGERS or (
        field.cpp_type == FieldDescriptor.CPPTYPE_ENUM and isinstance(value, NumberText)
    ):
        is_fit = isinstance(value, str) and _is_integer(value)
        expected = "an integer"
    elif field.cpp_type in _FLOATS:
        is_fit = isinstance(value, str) and (value in _NOT_FINITE or _is_finite(value))
        expected = 'a number that is not too large, or "NaN", "Infinity", "-Infinity"'
    elif field.type == FieldDescriptor.TYPE_BYTES:
        is_fit = isinstance(value, str) and bool(_BASE64.fullmatch(value)) and not isinstance(value, NumberText)
        expected = "a text in Base64"
    else:
        return
    if not is_fit and value is not None:
        shown = repr(str(value) if isinstance(value, NumberText) else value)
        raise Unencodable("", f"{shown[:_SHOWN_MAX]} is given, expected {expected}")


def _is_integer(text: str) -> bool:
    """Return whether no digit gets lost: Protobuf reads numbers with a point or an exponent as floats."""
    if _INTEGER.fullmatch(text):
        return True
    number = exact_number(text) if isinstance(text, NumberText) else Decimal("NaN")
    return number.is_finite() and abs(number) <= _EXACT_MAX and number == number.to_integral_value()


def _is_finite(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and float(text) not in (float("inf"), float("-inf"))
