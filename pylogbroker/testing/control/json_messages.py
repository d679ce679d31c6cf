"""Kafka's messages as JSON: fields by their names, bytes as base64."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from math import isfinite
from typing import Any
from uuid import UUID

import attrs

from pylogbroker.testing.faults.names import unknown
from pylogbroker.wire.schema import Field, FieldType, fields_of

_BYTES = frozenset((FieldType.BYTES, FieldType.RECORDS))


def to_json(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, UUID) or (isinstance(value, float) and not isfinite(value)):  # JSON has no such number
        return str(value)
    if isinstance(value, list):
        return [to_json(element) for element in value]
    if attrs.has(type(value)):
        return {field.name: to_json(getattr(value, field.name)) for field in attrs.fields(type(value))}
    return value


def from_json(cls: Any, given: Mapping[str, Any]) -> Any:
    """Return a message; missing fields have their defaults. Raise ValueError for an unknown field."""
    fields = {field.name: field for field in fields_of(cls)}
    for name in given:
        if name not in fields:
            raise unknown(f"field of {cls.__name__}", name, fields)
    return cls(**{name: _field(fields[name], value) for name, value in given.items()})


def _field(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_single(field, element) for element in value]
    return _single(field, value)


def _single(field: Field, value: Any) -> Any:
    if isinstance(field.kind, type):
        return from_json(field.kind, value)
    if field.kind in _BYTES:
        return b64decode(value)
    if field.kind is FieldType.FLOAT64:
        return float(value)
    return UUID(value) if field.kind is FieldType.UUID else value
