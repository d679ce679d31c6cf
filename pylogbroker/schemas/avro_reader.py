"""Avro's binary content to JSON text, directly: no number passes through a float, and no type gets lost.

| Avro                         | JSON                                                                  |
|------------------------------|-----------------------------------------------------------------------|
| int, long                    | number, all digits                                                    |
| float, double                | number, the shortest that is the same; "NaN", "Infinity", "-Infinity" |
| bytes, fixed                 | Base64                                                                |
| union                        | the value alone, without the name of its branch                       |
| record, map; enum            | object; text                                                          |
| decimal                      | number, with the digits of its scale                                  |
| date, time-*, (local-)timestamp-* | "2026-11-28", "09:30:00.000", "2026-11-28T07:00:00.000Z"         |
| uuid; duration               | text; object of months, days, milliseconds                            |

Each value spends its characters from a budget before the next one is read. Few bytes can stand for very much JSON:
billions of items may take no bytes, and names of fields and symbols may be long.
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.schemas.avro_logical import decimal_text, number_text
from pylogbroker.schemas.avro_schema import RECORDS, AvroTypes, logical_of
from pylogbroker.schemas.errors import Undecodable
from pylogbroker.schemas.framing import read_zigzag
from pylogbroker.schemas.limits import JsonBudget

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_DURATION: Final = struct.Struct("<III")
_BETWEEN: Final = ", "


class AvroInput:
    """Content, where its reader stands, and the budget of its JSON."""

    __slots__ = ("at", "data", "spend")

    def __init__(self, data: bytes, budget: JsonBudget) -> None:
        self.data = data
        self.at = 0
        self.spend = budget.spend

    def number(self) -> int:
        data, at = self.data, self.at
        if at < len(data) and (byte := data[at]) < 0x80:
            self.at = at + 1
            return (byte >> 1) ^ -(byte & 1)
        number, self.at = read_zigzag(data, at)
        return number

    def take(self, size: int) -> bytes:
        begin, end = self.at, self.at + size
        if size < 0 or end > len(self.data):
            raise Undecodable(f"it is cut: {size} bytes are expected at byte {begin} of {len(self.data)}")
        self.at = end
        return self.data[begin:end]

    def written(self, text: str) -> str:
        """Return JSON, and spend its characters."""
        self.spend(len(text))
        return text


Read = Callable[[AvroInput], str]


def reader_of(types: AvroTypes) -> Read:
    """Return what reads a value as JSON; it raises Undecodable, UnicodeDecodeError or RecursionError."""
    return _Compiler(types).read(types.root)


@attrs.define(eq=False, repr=False)
class _Compiler:
    _types: AvroTypes
    _by_name: dict[str, Read] = attrs.field(factory=dict)

    def read(self, schema: Any) -> Read:
        schema = self._types.resolved(schema)
        if isinstance(schema, list):
            return _union([self.read(branch) for branch in schema])
        kind = schema["type"]
        if kind in RECORDS:
            return self._record(schema)
        if kind == "array":
            return _array(self.read(schema["items"]))
        if kind == "map":
            return _map(self.read(schema["values"]))
        if kind == "enum":
            return _enum(schema["symbols"])
        if kind in ("bytes", "fixed"):
            return _binary(schema)
        logical = number_text(logical_of(schema)) if kind in ("int", "long") else None
        if logical is not None:
            write = logical
            return lambda source: source.written(write(source.number()))
        return _PRIMITIVES[kind]

    def _record(self, schema: Any) -> Read:
        name = schema["name"]
        if name in self._by_name:
            return self._by_name[name]
        self._by_name[name] = lambda source: read(source)  # for a record that contains itself
        fields = schema["fields"]
        parts = [(f"{encode_basestring(field['name'])}: ", self.read(field["type"])) for field in fields]
        characters = len("{}") + sum(len(head) + len(_BETWEEN) for head, _ in parts)

        def read(source: AvroInput) -> str:
            source.spend(characters)
            return "{" + _BETWEEN.join([head + read_field(source) for head, read_field in parts]) + "}"

        self._by_name[name] = read
        return read


def _union(branches: list[Read]) -> Read:
    count = len(branches)

    def read(source: AvroInput) -> str:
        index = source.number()
        if not 0 <= index < count:
            raise Undecodable(f"it names branch {index} of a union of {count} at byte {source.at}")
        return branches[index](source)

    return read


def _counts(source: AvroInput, characters: int) -> int:
    """Return the number of items in the next block, 0 behind the last one.

    Each item spends `characters`, those around it.
    """
    count = source.number()
    if count < 0:
        count = -count
        source.number()  # bytes of the block
    source.spend(count * characters)
    return count


def _array(read_item: Read) -> Read:
    def read(source: AvroInput) -> str:
        source.spend(len("[]"))
        items: list[str] = []
        while count := _counts(source, len(_BETWEEN)):
            items += [read_item(source) for _ in range(count)]
        return "[" + _BETWEEN.join(items) + "]"

    return read


def _map(read_value: Read) -> Read:
    def read(source: AvroInput) -> str:
        source.spend(len("{}"))
        members: list[str] = []
        while count := _counts(source, len(_BETWEEN) + len(": ")):
            members += [f"{_string(source)}: {read_value(source)}" for _ in range(count)]
        return "{" + _BETWEEN.join(members) + "}"

    return read


def _enum(symbols: list[str]) -> Read:
    texts = [encode_basestring(symbol) for symbol in symbols]

    def read(source: AvroInput) -> str:
        index = source.number()
        if not 0 <= index < len(texts):
            raise Undecodable(f"it names symbol {index} of an enum of {len(texts)} at byte {source.at}")
        return source.written(texts[index])

    return read


def _binary(schema: Any) -> Read:
    size: int | None = schema["size"] if schema["type"] == "fixed" else None
    text = _binary_text(schema)
    if size is None:
        return lambda source: source.written(text(source.take(source.number())))
    fixed = size
    return lambda source: source.written(text(source.take(fixed)))


def _binary_text(schema: Any) -> Callable[[bytes], str]:
    logical = logical_of(schema)
    if logical == "decimal":
        scale = schema.get("scale", 0)
        return lambda data: decimal_text(data, scale)
    if logical == "uuid":
        return lambda data: f'"{UUID(bytes=data)}"'
    if logical == "duration":
        return lambda data: '{{"months": {}, "days": {}, "milliseconds": {}}}'.format(*_DURATION.unpack(data))
    return lambda data: f'"{b64encode(data).decode()}"'


def _string(source: AvroInput) -> str:
    return source.written(encode_basestring(source.take(source.number()).decode()))


def _integer(source: AvroInput) -> str:
    return source.written(str(source.number()))


def _boolean(source: AvroInput) -> str:
    byte = source.take(1)[0]
    if byte > 1:
        raise Undecodable(f"it has {byte} as a boolean at byte {source.at - 1}")
    return source.written("true" if byte else "false")


def _float(source: AvroInput) -> str:
    return source.written(_float_text(source.take(_FLOAT.size)))


def _float_text(data: bytes) -> str:
    [number] = _FLOAT.unpack(data)
    if not math.isfinite(number):
        return _not_finite(number)
    for digits in (6, 7, 8):
        shorter = float(f"{number:.{digits}g}")
        try:
            if _FLOAT.pack(shorter) == data:
                return repr(shorter)
        except OverflowError:  # the rounded one is too large
            continue
    return repr(float(f"{number:.9g}"))


def _double(source: AvroInput) -> str:
    [number] = _DOUBLE.unpack(source.take(_DOUBLE.size))
    return source.written(repr(number) if math.isfinite(number) else _not_finite(number))


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return '"NaN"'
    return '"Infinity"' if number > 0 else '"-Infinity"'


_PRIMITIVES: Final[dict[str, Read]] = {
    "null": lambda source: source.written("null"),
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _float,
    "double": _double,
    "string": _string,
}
