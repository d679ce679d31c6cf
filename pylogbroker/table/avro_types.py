"""Arrow types of Avro's schemas, for content that `schemas.avro_codec` decodes to JSON.

| Avro                                   | Arrow                                                       |
|----------------------------------------|-------------------------------------------------------------|
| int, long, float, double, boolean      | the same                                                    |
| string, enum, uuid                     | string                                                      |
| bytes, fixed                           | binary                                                      |
| decimal                                | decimal128; string with more than 38 digits                 |
| date, time-*, (local-)timestamp-*      | date32, time32 or time64, timestamp (UTC unless local)      |
| duration                               | struct of months, days, milliseconds                        |
| record, array, map                     | struct, list, map                                           |
| union                                  | what unifies its branches (`json_types`), mostly with null  |
| a record within itself                 | string: JSON                                                |
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from pylogbroker.schemas.avro_schema import RECORDS, AvroTypes, logical_of
from pylogbroker.table.json_types import unified

_PRECISION_MAX: Final = 38  # of decimal128
_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}
_PRIMITIVES: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_DURATION: Final = pa.struct([(name, pa.int64()) for name in ("months", "days", "milliseconds")])


def arrow_type_of_avro(types: AvroTypes) -> pa.DataType:
    return _type(types, types.root, ())


def _type(types: AvroTypes, schema: Any, within: tuple[str, ...]) -> pa.DataType:
    schema = types.resolved(schema)
    if isinstance(schema, list):
        kind = pa.null()
        for branch in schema:
            kind = unified(kind, _type(types, branch, within))
        return kind
    name = schema["type"]
    if name in RECORDS:
        if schema["name"] in within:
            return pa.string()
        inner = (*within, schema["name"])
        return pa.struct([(field["name"], _type(types, field["type"], inner)) for field in schema["fields"]])
    if name == "array":
        return pa.list_(_type(types, schema["items"], within))
    if name == "map":
        return pa.map_(pa.string(), _type(types, schema["values"], within))
    return _logical(schema) or _PRIMITIVES[name]


def _logical(schema: Any) -> pa.DataType | None:
    name = logical_of(schema)
    if name == "date":
        return pa.date32()
    if name == "uuid":
        return pa.string()
    if name == "duration":
        return _DURATION
    if name == "decimal":
        precision, scale = schema["precision"], schema.get("scale", 0)
        return pa.decimal128(precision, scale) if precision <= _PRECISION_MAX else pa.string()
    kind, _, unit = name.rpartition("-")
    if unit not in _UNITS:
        return None
    if kind == "time":
        return pa.time32("ms") if unit == "millis" else pa.time64(_UNITS[unit])
    if kind in ("timestamp", "local-timestamp"):
        return pa.timestamp(_UNITS[unit], tz=None if kind.startswith("local") else "UTC")
    return None
