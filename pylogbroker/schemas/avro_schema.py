"""Avro's schemas, parsed by fastavro: names are full ones, and named types are found by them.

Logical types that Avro's specification calls invalid are removed, so that the type below them counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import attrs
import fastavro.schema

from pylogbroker.schemas.errors import InvalidSchema

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
RECORDS: Final = ("record", "error")
PRECISION_MAX: Final = 4000
"""Digits of a decimal: more take Python quadratic time."""
_FIXED_BYTES_MAX: Final = 2**31 - 1
_LOGICAL_KINDS: Final = {
    "date": ("int",),
    "time-millis": ("int",),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
    "decimal": ("bytes", "fixed"),
    **{
        f"{name}-{unit}": ("long",)
        for name in ("time", "timestamp", "local-timestamp")
        for unit in ("millis", "micros", "nanos")
        if (name, unit) != ("time", "millis")
    },
}
"""Types that a logical type may stand on."""
_LOGICAL_SIZES: Final = {"uuid": 16, "duration": 12}
"""Bytes of fixed types."""


@attrs.frozen(eq=False, repr=False)
class AvroTypes:
    """A schema's root, and named types."""

    root: Any
    named: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str]) -> AvroTypes:
        """Parse a schema that may use others by their texts; raise InvalidSchema, or what fastavro raises."""
        named: dict[str, Any] = {}
        try:
            for reference in references.values():
                fastavro.schema.parse_schema(_checked(json.loads(reference)), named)
            root = fastavro.schema.parse_schema(_checked(json.loads(text)), named)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError) as error:
            raise InvalidSchema(f"this is no Avro schema: {error}") from error
        return cls(root, named)

    def resolved(self, schema: Any) -> Any:
        """Return a union as a list, else a dict with a type."""
        if isinstance(schema, str):
            return {"type": schema} if schema in PRIMITIVES else self.named[schema]
        if isinstance(schema, dict) and isinstance(schema["type"], dict | list):
            return self.resolved(schema["type"])
        return schema


def name_of(schema: Any) -> str:
    """Return the name of a resolved type: that of a named one, else the kind."""
    return "union" if isinstance(schema, list) else str(schema.get("name", schema["type"]))


def logical_of(schema: Any) -> str:
    """Return the name of a resolved type's logical type, empty without one."""
    return str(schema.get("logicalType", ""))


def _checked(schema: Any) -> Any:
    """Return a schema without invalid logical types; raise InvalidSchema for what fastavro does not check."""
    if isinstance(schema, list):
        if any(isinstance(branch, list) for branch in schema):
            raise InvalidSchema("this is no Avro schema: a union has another union as a branch")
        return [_checked(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    checked = dict(schema)
    kind = schema.get("type")
    for name in ("items", "values"):
        if name in schema:
            checked[name] = _checked(schema[name])
    if kind in RECORDS:
        checked["fields"] = _checked_fields(schema)
    elif kind == "fixed":
        _check_size(schema)
    elif kind == "enum" and not _is_texts(schema.get("symbols")):
        raise InvalidSchema(f"this is no Avro schema: the symbols of {_named(schema)} are no array of texts")
    if "logicalType" in schema and not _has_valid_logical_type(schema):
        del checked["logicalType"]
    return checked


def _checked_fields(schema: dict[str, Any]) -> list[Any]:
    fields = schema.get("fields")
    if not isinstance(fields, list) or not _is_texts(
        [isinstance(field, dict) and field.get("name") for field in fields]
    ):
        raise InvalidSchema(
            f"this is no Avro schema: the fields of {_named(schema)} are no array of objects with names"
        )
    names = [field["name"] for field in fields]
    if len(set(names)) < len(names):
        raise InvalidSchema(f"this is no Avro schema: {_named(schema)} has two fields of the same name")
    return [{**field, "type": _checked(field["type"])} if "type" in field else field for field in fields]


def _check_size(schema: dict[str, Any]) -> None:
    if not _is_number(schema.get("size"), 0, _FIXED_BYTES_MAX):
        raise InvalidSchema(f"this is no Avro schema: the size of {_named(schema)} is no number of bytes")


def _has_valid_logical_type(schema: dict[str, Any]) -> bool:
    """Return whether a logical type may stand on its type; raise InvalidSchema for a decimal that is too long."""
    logical, kind = schema["logicalType"], schema.get("type")
    if not isinstance(logical, str) or not isinstance(kind, str):
        return False
    if kind not in _LOGICAL_KINDS.get(logical, (kind,)):
        return False
    if logical == "decimal":
        return _is_valid_decimal(schema)
    return kind != "fixed" or logical not in _LOGICAL_SIZES or schema["size"] == _LOGICAL_SIZES[logical]


def _is_valid_decimal(schema: dict[str, Any]) -> bool:
    precision: Any = schema.get("precision")
    scale: Any = schema.get("scale", 0)
    digits_max = math.inf if schema["type"] == "bytes" else int(math.log10(2) * (8 * schema["size"] - 1))
    if not _is_number(precision, 1, digits_max) or not _is_number(scale, 0, precision):
        return False
    if precision > PRECISION_MAX:
        raise InvalidSchema(
            f"decimals of more than {PRECISION_MAX} digits are not supported: {_named(schema)} has the precision"
            f" {_shortened(precision)}"
        )
    return True


def _is_number(value: Any, least: float, most: float) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _named(schema: dict[str, Any]) -> str:
    return f"{_shortened(schema['type'])} {_shortened(schema.get('name', ''))}".strip()


def _shortened(value: Any) -> str:
    return str(value)[:100]
