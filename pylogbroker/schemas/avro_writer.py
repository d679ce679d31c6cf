"""JSON values to Avro's binary content. Errors name the field.

A union takes the first branch that fits, a plain text before other types with texts; `{"long": 5}` names the branch.
Fields with a default may be left out.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Callable
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.schemas.avro_logical import number_of, unscaled_decimal
from pylogbroker.schemas.avro_schema import RECORDS, AvroTypes, name_of
from pylogbroker.schemas.errors import Unencodable
from pylogbroker.schemas.framing import zigzag_varint

Write = Callable[[Any, str], bytes]
"""`write(value, path)` returns bytes, or raises Unencodable."""
_DURATION: Final = ("months", "days", "milliseconds")
_BITS: Final = {"int": 32, "long": 64}
_FLOATS: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_SHOWN_MAX: Final = 60


def writer_of(types: AvroTypes) -> Write:
    return _Compiler(types).write(types.root)


@attrs.define(eq=False, repr=False)
class _Compiler:
    _types: AvroTypes
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
            return _binary(schema)
        if kind in _BITS:
            return _integer(schema)
        if kind in _FLOATS:
            return _float(kind)
        return _PRIMITIVES[kind]

    def _record(self, schema: Any) -> Write:
        name = schema["name"]
        if name in self._by_name:
            return self._by_name[name]
        self._by_name[name] = lambda value, path: write(value, path)  # for a record that contains itself
        fields = {field["name"]: self.write(field["type"]) for field in schema["fields"]}
        defaults = {
            field["name"]: self._default(field["type"], field["default"])
            for field in schema["fields"]
            if "default" in field
        }

        def write(value: Any, path: str) -> bytes:
            if not isinstance(value, dict):
                raise _mismatch(value, path, f"an object for the record {name}")
            if unknown := next((given for given in value if given not in fields), None):
                raise Unencodable(_below(path, unknown), _no_field(name, unknown, list(fields)))
            parts = []
            for field, write_field in fields.items():
                if field in value:
                    parts.append(write_field(value[field], _below(path, field)))
                elif field in defaults:
                    parts.append(write_field(defaults[field], _below(path, field)))
                else:
                    raise Unencodable(_below(path, field), "it is missing, and has no default")
            return b"".join(parts)

        self._by_name[name] = write
        return write

    def _default(self, schema: Any, default: Any) -> Any:
        """Return a default as a value: bytes stand in schemas as texts of their characters."""
        schema = self._types.resolved(schema)
        if isinstance(schema, list):
            return {name_of(self._types.resolved(schema[0])): self._default(schema[0], default)} if schema else default
        if schema["type"] in ("bytes", "fixed") and isinstance(default, str):
            data = default.encode("latin-1", "replace")
            if schema.get("logicalType") == "decimal":
                return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-schema.get("scale", 0))
            return b64encode(data).decode()
        return Decimal(repr(default)) if isinstance(default, float) else default

    def _union(self, schema: list[Any]) -> Write:
        branches = [self._types.resolved(branch) for branch in schema]
        names = [name_of(branch) for branch in branches]
        writes = [self.write(branch) for branch in branches]
        plain_first = sorted(range(len(branches)), key=lambda index: branches[index]["type"] != "string")
        kinds = ", ".join(names)

        def write(value: Any, path: str) -> bytes:
            if isinstance(value, dict) and len(value) == 1:
                [(name, inner)] = value.items()
                if name in names:
                    index = names.index(name)
                    return zigzag_varint(index) + writes[index](inner, path)
            failures: list[Unencodable] = []
            for index in plain_first if isinstance(value, str) else range(len(writes)):
                try:
                    return zigzag_varint(index) + writes[index](value, path)
                except Unencodable as error:
                    if branches[index]["type"] != "null":
                        failures.append(error)
            inner_failures = [failure for failure in failures if failure.path != path]
            if len(failures) == 1 or len(inner_failures) == 1:
                raise (inner_failures or failures)[0]
            raise _mismatch(value, path, f"one of {kinds}")

        return write


def _array(write_item: Write) -> Write:
    def write(value: Any, path: str) -> bytes:
        if not isinstance(value, list):
            raise _mismatch(value, path, "an array")
        items = b"".join(write_item(item, f"{path}[{index}]") for index, item in enumerate(value))
        return zigzag_varint(len(value)) + items + b"\0" if value else b"\0"

    return write


def _map(write_value: Write) -> Write:
    def write(value: Any, path: str) -> bytes:
        if not isinstance(value, dict):
            raise _mismatch(value, path, "an object for a map")
        members = b"".join(
            _string(name, path) + write_value(member, _below(path, name)) for name, member in value.items()
        )
        return zigzag_varint(len(value)) + members + b"\0" if value else b"\0"

    return write


def _enum(schema: Any) -> Write:
    places = {symbol: zigzag_varint(index) for index, symbol in enumerate(schema["symbols"])}

    def write(value: Any, path: str) -> bytes:
        if not isinstance(value, str) or value not in places:
            raise _mismatch(value, path, f"one of {', '.join(places)} for the enum {schema['name']}")
        return places[value]

    return write


def _integer(schema: Any) -> Write:
    kind = schema["type"]
    limit = 1 << (_BITS[kind] - 1)
    read_text = number_of(str(schema.get("logicalType", "")))
    expected = kind if read_text is None else f"{kind}, or a text, for {schema['logicalType']}"

    def write(value: Any, path: str) -> bytes:
        if read_text is not None and isinstance(value, str):
            value = read_text(value, path)
        if isinstance(value, Decimal) and value == value.to_integral_value():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise _mismatch(value, path, expected)
        if not -limit <= value < limit:
            raise Unencodable(path, f"{value} is outside of {kind}: -2^{_BITS[kind] - 1} to 2^{_BITS[kind] - 1} - 1")
        return zigzag_varint(value)

    return write


def _float(kind: str) -> Write:
    pack = _FLOATS[kind].pack

    def write(value: Any, path: str) -> bytes:
        if value in _NOT_FINITE and isinstance(value, str):
            return pack(float(value))
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise _mismatch(value, path, f'{kind}: a number, or "NaN", "Infinity", "-Infinity"')
        try:
            number = float(value)
            if number in (float("inf"), float("-inf")):
                raise OverflowError
            return pack(number)
        except OverflowError:
            raise Unencodable(path, f"{value} is too large for {kind}") from None

    return write


def _binary(schema: Any) -> Write:
    size = schema["size"] if schema["type"] == "fixed" else None
    data_of = _decimal(schema, size) if schema.get("logicalType") == "decimal" else _bytes_of(schema, size)

    def write(value: Any, path: str) -> bytes:
        data = data_of(value, path)
        if size is None:
            return zigzag_varint(len(data)) + data
        if len(data) != size:
            raise Unencodable(path, f"it has {len(data)} bytes, and {schema['name']} has {size}")
        return data

    return write


def _bytes_of(schema: Any, size: int | None) -> Write:
    logical = schema.get("logicalType") if size is not None else None

    def data_of(value: Any, path: str) -> bytes:
        if logical == "duration" and isinstance(value, dict):
            return _duration(value, path)
        if not isinstance(value, str):
            raise _mismatch(value, path, "a text in Base64")
        try:
            return UUID(value).bytes if logical == "uuid" else b64decode(value, validate=True)
        except BadBase64 as error:
            raise Unencodable(path, f"{_shown(value)} is not Base64: {error}") from None
        except ValueError:
            raise _mismatch(value, path, "a UUID") from None

    return data_of


def _duration(value: dict[str, Any], path: str) -> bytes:
    try:
        return struct.pack("<III", *(value[name] for name in _DURATION))
    except (KeyError, struct.error):
        raise _mismatch(value, path, f"an object of {', '.join(_DURATION)}") from None


def _decimal(schema: Any, size: int | None) -> Write:
    scale, precision = schema.get("scale", 0), schema["precision"]

    def data_of(value: Any, path: str) -> bytes:
        number = unscaled_decimal(value, path, precision, scale)
        length = size or (number if number >= 0 else ~number).bit_length() // 8 + 1
        try:
            return number.to_bytes(length, "big", signed=True)
        except OverflowError:
            raise Unencodable(path, f"{value} does not fit into {length} bytes") from None

    return data_of


def _null(value: Any, path: str) -> bytes:
    if value is not None:
        raise _mismatch(value, path, "null")
    return b""


def _boolean(value: Any, path: str) -> bytes:
    if not isinstance(value, bool):
        raise _mismatch(value, path, "true or false")
    return b"\1" if value else b"\0"


def _string(value: Any, path: str) -> bytes:
    if not isinstance(value, str):
        raise _mismatch(value, path, "a text")
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise Unencodable(path, f"{_shown(value)} has half of a character, which UTF-8 cannot hold") from None
    return zigzag_varint(len(data)) + data


_PRIMITIVES: Final[dict[str, Write]] = {"null": _null, "boolean": _boolean, "string": _string}


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _mismatch(value: Any, path: str, expected: str) -> Unencodable:
    return Unencodable(path, f"{_shown(value)} is given, expected {expected}")


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = str(value) if isinstance(value, int | Decimal) else repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _no_field(record: str, name: str, fields: list[str]) -> str:
    [*likely] = get_close_matches(name, fields, 1)
    remedy = f"did you mean {likely[0]}?" if likely else f"it has {', '.join(fields) or 'none'}"
    return f"the record {record} has no such field: {remedy}"
