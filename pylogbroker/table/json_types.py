"""Types of JSON: inferred from values, and unified.

    null and X          X
    int64 and double    double; also for numbers of more than 64 bits
    structs             all members of both
    lists               the list of what unifies their items
    any others          text: strings as they are, other values as JSON; also below 60 levels

Texts stay texts, also those of times: so a type does not depend on what the texts of a sample look like. A text that is
a time in all records can be given as one by `value_schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

_INT64_MAX: Final = (1 << 63) - 1
_MEMBERS_MAX: Final = 2000  # of an object: more are data, not a schema
_DEPTH_MAX: Final = 60


def unified(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that has the values of two."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        members = {field.name: field.type for field in one}
        for field in other:
            members[field.name] = unified(members.get(field.name, pa.null()), field.type)
        return struct_of(members)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return pa.map_(pa.string(), unified(one.item_type, other.item_type))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(unified(one.value_type, other.value_type))
    return _unified_numbers(one, other)


def struct_of(members: Mapping[str, pa.DataType]) -> pa.DataType:
    """Return a struct; text for one with more members than a schema has."""
    return pa.string() if len(members) > _MEMBERS_MAX else pa.struct(list(members.items()))


def _unified_numbers(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return pa.int64()
    is_number = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (one, other)]
    return pa.float64() if all(is_number) else pa.string()


def without_times(kind: pa.DataType) -> pa.DataType:
    """Return a type that Arrow inferred, with texts where it has times."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return struct_of({field.name: without_times(field.type) for field in kind})
    return pa.list_(without_times(kind.value_type)) if pa.types.is_list(kind) else kind


def completed(kind: pa.DataType) -> pa.DataType:
    """Return a type without nulls and empty structs, which files cannot have: text instead."""
    if pa.types.is_null(kind) or (pa.types.is_struct(kind) and not kind.num_fields):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, completed(field.type)) for field in kind])
    return pa.list_(completed(kind.value_type)) if pa.types.is_list(kind) else kind


def is_deep(kind: pa.DataType, depth: int = 0) -> bool:
    """Return whether a type has more levels than one that values show: theirs is text from there on."""
    if depth > _DEPTH_MAX:
        return True
    return any(is_deep(kind.field(index).type, depth + 1) for index in range(kind.num_fields))


def type_of_value(value: Any, depth: int = 0) -> pa.DataType:
    """Return the type of a value as `json.loads` returns it."""
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if -_INT64_MAX - 1 <= value <= _INT64_MAX else pa.float64()
        case float():
            return pa.float64()
        case str():
            return pa.string()
    if depth > _DEPTH_MAX:
        return pa.string()
    if isinstance(value, dict):
        return struct_of({name: type_of_value(member, depth + 1) for name, member in value.items()})
    kind = pa.null()
    for item in value:
        kind = unified(kind, type_of_value(item, depth + 1))
    return pa.list_(kind)
