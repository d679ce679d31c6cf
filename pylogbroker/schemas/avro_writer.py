"""JSON values to Avro's binary content. Errors name the field.

A union takes the first branch that fits. Some branches come before others, so that nothing is lost:

    number    int and long, decimal, double, float, others
    text      string, others

`{"long": 5}` names the branch. Fields with a default may be left out. In schemas, defaults of bytes are texts whose
characters are the bytes, and no default names a branch: a second set of functions writes them.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.schemas.avro_logical import number_of, unscaled_decimal
from pylogbroker.schemas.avro_schema import RECORDS, AvroTypes, logical_of, name_of
from pylogbroker.schemas.errors import Unencodable
from pylogbroker.schemas.framing import zigzag_varint

_DURATION: Final = ("months", "days", "milliseconds")
_BITS: Final = {"int": 32, "long": 64}
_DIGITS_MAX: Final = 20
"""Digits before the point that a long can have, and one more."""
_FLOATS: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_SHOWN_MAX: Final = 60
_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_NUMBER_RANKS: Final = {"int": 0, "long": 0, "decimal": 1, "double": 2, "float": 3}
_OTHER_RANK: Final = 4
_STEPS: Final = 1_000_000
_STEPS_PER_CHARACTER: Final = 16
_BYTES_PER_STEP: Final = 16
_STEPS_OF_SUGGESTION: Final = 10  # for each field
_STEPS_OF_FAILURE: Final = 30  # errors take long to make


class Steps:
    """Bounds the work of one encoding.

    Branches of unions within unions may be tried in any combination, and defaults may have others within them.
    """

    __slots__ = ("_left",)

    def __init__(self, characters: int) -> None:
        self._left = _STEPS + _STEPS_PER_CHARACTER * characters

    def take(self, count: int) -> None:
        """Raise Unencodable when none are left, then each time."""
        self._left -= count
        if self._left < 0:
            raise Unencodable(
                "",
                'it takes too many steps: name the branches of unions, like {"long": 5}, and give fields with defaults',
            )


Write = Callable[[Any, Steps], bytes]
"""`write(value, steps)` returns bytes, or raises Unencodable whose path begins at the value."""


def writer_of(types: AvroTypes) -> Write:
    return _Compiler(types, _Compiler(types, None)).write(types.root)


@attrs.define(eq=False, repr=False)
class _Compiler:
    _types: AvroTypes
    _of_defaults: _Compiler | None
    """Makes what writes defaults; None if this one does."""
    _by_name: dict[str, Write] = attrs.field(factory=dict)

    def write(self, schema: Any) -> Write:
        schema = self._types.resolved(schema)
        if isinstance(schema, list):
            return self._union(schema)
        kind = schema["type"]
        if kind in RECORDS:
            return self._record(schema)
        if kind == "array":
            return _array(self.write(schema["items"]))
        if kind == "map":
            return _map(self.write(schema["values"]))
        if kind == "enum":
            return _enum(schema)
        if kind in ("bytes", "fixed"):
            return _binary(schema, _characters if self._of_defaults is None else None)
        if kind in _BITS:
            return _integer(schema)
        if kind in _FLOATS:
            return _float(kind)
        return _PRIMITIVES[kind]

    def _record(self, schema: Any) -> Write:
        name = schema["name"]
        if name in self._by_name:
            return self._by_name[name]
        self._by_name[name] = lambda value, steps: write(value, steps)  # for a record that contains itself
        fields = {field["name"]: self.write(field["type"]) for field in schema["fields"]}
        write_default = (self._of_defaults or self).write
        defaults = {
            field["name"]: _default(write_default(field["type"]), field["default"])
            for field in schema["fields"]
            if "default" in field
        }

        def write(value: Any, steps: Steps) -> bytes:
            steps.take(len(fields) + 1)
            if not isinstance(value, dict):
                raise _mismatch(value, f"an object for the record {name}")
            if unknown := next((given for given in value if given not in fields), None):
                steps.take(_STEPS_OF_SUGGESTION * len(fields))
                raise Unencodable("", _no_field(name, unknown, list(fields))).below(unknown)
            parts = []
            for field, write_field in fields.items():
                try:
                    if field in value:
                        parts.append(write_field(value[field], steps))
                    elif field in defaults:
                        parts.append(defaults[field](steps))
                    else:
                        raise Unencodable("", "it is missing, and has no default")
                except Unencodable as error:
                    raise error.below(field) from error.__cause__
            return b"".join(parts)

        self._by_name[name] = write
        return write

    def _union(self, schema: list[Any]) -> Write:
        branches = [self._types.resolved(branch) for branch in schema]
        names = [name_of(branch) for branch in branches]
        writes = [(zigzag_varint(index), self.write(branch)) for index, branch in enumerate(branches)]
        places = range(len(branches))
        for_numbers = sorted(places, key=lambda place: _number_rank(branches[place]))
        for_texts = sorted(places, key=lambda place: branches[place]["type"] != "string")
        expected = f"one of {_listed(names)}"
        may_name = self._of_defaults is not None

        def write(value: Any, steps: Steps) -> bytes:
            if may_name and isinstance(value, dict) and len(value) == 1:
                [(name, inner)] = value.items()
                if name in names:
                    head, write_branch = writes[names.index(name)]
                    return head + write_branch(inner, steps)
            order: Sequence[int] = places
            if isinstance(value, str):
                order = for_texts
            elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
                order = for_numbers
            failures: list[Unencodable] = []
            for place in order:
                head, write_branch = writes[place]
                steps.take(1)
                try:
                    return head + write_branch(value, steps)
                except Unencodable as error:
                    steps.take(_STEPS_OF_FAILURE)
                    if names[place] != "null":
                        failures.append(error)
            inner_failures = [failure for failure in failures if failure.path]
            if len(failures) == 1 or len(inner_failures) == 1:
                raise (inner_failures or failures)[0]
            raise _mismatch(value, expected)

        return write


def _number_rank(branch: Any) -> int:
    kind = "decimal" if logical_of(branch) == "decimal" else branch["type"]
    return _NUMBER_RANKS.get(kind, _OTHER_RANK)


def _default(write: Write, default: Any) -> Callable[[Steps], bytes]:
    """Return what writes a default; it is encoded when it is first needed."""
    encoded: list[bytes] = []

    def write_default(steps: Steps) -> bytes:
        if not encoded:
            encoded.append(write(default, steps))
        steps.take(len(encoded[0]) // _BYTES_PER_STEP)
        return encoded[0]

    return write_default


def _array(write_item: Write) -> Write:
    def write(value: Any, steps: Steps) -> bytes:
        if not isinstance(value, list):
            raise _mismatch(value, "an array")
        steps.take(len(value) + 1)
        items = []
        for index, item in enumerate(value):
            try:
                items.append(write_item(item, steps))
            except Unencodable as error:
                raise error.below(index) from error.__cause__
        return zigzag_varint(len(value)) + b"".join(items) + b"\0" if value else b"\0"

    return write


def _map(write_value: Write) -> Write:
    def write(value: Any, steps: Steps) -> bytes:
        if not isinstance(value, dict):
            raise _mismatch(value, "an object for a map")
        steps.take(len(value) + 1)
        members = []
        for name, member in value.items():
            try:
                members += [_string(name, steps), write_value(member, steps)]
            except Unencodable as error:
                raise error.below(name) from error.__cause__
        return zigzag_varint(len(value)) + b"".join(members) + b"\0" if value else b"\0"

    return write


def _enum(schema: Any) -> Write:
    places = {symbol: zigzag_varint(index) for index, symbol in enumerate(schema["symbols"])}
    expected = f"one of {_listed(list(places))} for the enum {schema['name']}"

    def write(value: Any, steps: Steps) -> bytes:
        if not isinstance(value, str) or value not in places:
            raise _mismatch(value, expected)
        return places[value]

    return write


def _integer(schema: Any) -> Write:
    kind = schema["type"]
    limit = 1 << (_BITS[kind] - 1)
    read_text = number_of(logical_of(schema))
    expected = kind if read_text is None else f"{kind}, or a text, for {schema['logicalType']}"

    def write(value: Any, steps: Steps) -> bytes:
        number = read_text(value) if read_text is not None and isinstance(value, str) else _whole(value)
        if number is None:
            raise _mismatch(value, expected)
        if not -limit <= number < limit:
            bits = _BITS[kind] - 1
            raise Unencodable("", f"{_shown(value)} is outside of {kind}: -2^{bits} to 2^{bits} - 1")
        return zigzag_varint(int(number))

    return write


def _whole(value: Any) -> int | Decimal | None:
    """Return a number without a fraction, as an int if its digits are not too many; None for other values."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if isinstance(value, int) or not value.is_finite():
        return value
    if not value:
        return 0
    if value.adjusted() > _DIGITS_MAX:
        return value
    return int(value) if value.adjusted() >= 0 and value == value.to_integral_value() else None


def _float(kind: str) -> Write:
    pack = _FLOATS[kind].pack

    def write(value: Any, steps: Steps) -> bytes:
        if value in _NOT_FINITE and isinstance(value, str):
            return pack(float(value))
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise _mismatch(value, f'{kind}: a number, or "NaN", "Infinity", "-Infinity"')
        try:
            number = float(value)
            if number in (float("inf"), float("-inf")):
                raise OverflowError
            return pack(number)
        except OverflowError:
            raise Unencodable("", f"{_shown(value)} is too large for {kind}") from None

    return write


def _binary(schema: Any, data_of: Callable[[Any], bytes] | None) -> Write:
    size = schema["size"] if schema["type"] == "fixed" else None
    if data_of is None:
        data_of = _decimal(schema, size) if logical_of(schema) == "decimal" else _bytes_of(logical_of(schema))
    read_data = data_of

    def write(value: Any, steps: Steps) -> bytes:
        steps.take(_steps_of(value))
        data = read_data(value)
        if size is None:
            return zigzag_varint(len(data)) + data
        if len(data) != size:
            raise Unencodable("", f"it has {len(data)} bytes, and {schema['name']} has {size}")
        return data

    return write


def _characters(value: Any) -> bytes:
    """Return the bytes of a default."""
    if not isinstance(value, str):
        raise _mismatch(value, "a text whose characters are bytes")
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        raise _mismatch(value, "a text whose characters are bytes") from None


def _bytes_of(logical: str) -> Callable[[Any], bytes]:
    def data_of(value: Any) -> bytes:
        if logical == "duration" and isinstance(value, dict):
            return _duration(value)
        if not isinstance(value, str):
            raise _mismatch(value, "a text in Base64")
        if logical == "uuid":
            if not _UUID.fullmatch(value):
                raise _mismatch(value, "a UUID")
            return UUID(value).bytes
        try:
            return b64decode(value, validate=True)
        except BadBase64 as error:
            raise Unencodable("", f"{_shown(value)} is not Base64: {error}") from None
        except ValueError:
            raise Unencodable("", f"{_shown(value)} is not Base64, which has ASCII characters alone") from None

    return data_of


def _duration(value: dict[str, Any]) -> bytes:
    numbers = [_whole(value.get(name)) for name in _DURATION]
    if len(value) != len(_DURATION) or not all(number is not None and 0 <= number < 2**32 for number in numbers):
        raise _mismatch(value, f"an object of {', '.join(_DURATION)}, numbers from 0 to 2^32 - 1")
    return struct.pack("<III", *numbers)


def _decimal(schema: Any, size: int | None) -> Callable[[Any], bytes]:
    scale, precision = schema.get("scale", 0), schema["precision"]

    def data_of(value: Any) -> bytes:
        number = unscaled_decimal(value, precision, scale)
        length = (number if number >= 0 else ~number).bit_length() // 8 + 1 if size is None else size
        return number.to_bytes(length, "big", signed=True)

    return data_of


def _null(value: Any, steps: Steps) -> bytes:
    if value is not None:
        raise _mismatch(value, "null")
    return b""


def _boolean(value: Any, steps: Steps) -> bytes:
    if not isinstance(value, bool):
        raise _mismatch(value, "true or false")
    return b"\1" if value else b"\0"


def _string(value: Any, steps: Steps) -> bytes:
    if not isinstance(value, str):
        raise _mismatch(value, "a text")
    steps.take(_steps_of(value))
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise Unencodable("", f"{_shown(value)} has half of a character, which UTF-8 cannot hold") from None
    return zigzag_varint(len(data)) + data


_PRIMITIVES: Final[dict[str, Write]] = {"null": _null, "boolean": _boolean, "string": _string}


def _steps_of(value: Any) -> int:
    return len(value) // _BYTES_PER_STEP if isinstance(value, str) else 0


def _mismatch(value: Any, expected: str) -> Unencodable:
    return Unencodable("", f"{_shown(value)} is given, expected {expected}")


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, str) and len(value) > _SHOWN_MAX:
        return f"{value[:_SHOWN_MAX]!r}…"
    text = str(value) if isinstance(value, int | Decimal) else repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _listed(names: list[str]) -> str:
    """Return names with commas, the first ones if they are many."""
    text = ", ".join(names[:_SHOWN_MAX])
    return text if len(names) <= _SHOWN_MAX else f"{text}, …"


def _no_field(record: str, name: str, fields: list[str]) -> str:
    [*likely] = get_close_matches(name[:_SHOWN_MAX], fields, 1)
    remedy = f"did you mean {likely[0]}?" if likely else f"it has {_listed(fields) or 'none'}"
    return f"the record {record} has no such field: {remedy}"
