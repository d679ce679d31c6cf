"""Arrow types of Protobuf's messages, for content that `schemas.protobuf_codec` decodes to JSON.

| Protobuf                                  | Arrow                             |
|-------------------------------------------|-----------------------------------|
| int32, uint64, float, bool, ...           | the same                          |
| string, enum; bytes                       | string; binary                    |
| message, repeated, map                    | struct, list, map                 |
| Timestamp; wrappers such as Int64Value    | timestamp in ns, UTC; their value |
| Any, Struct, Value, ListValue             | string: JSON                      |
| Duration, FieldMask                       | string                            |
| a message within itself                   | string: JSON                      |
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from pylogbroker.schemas.protobuf_costs import is_repeated

_STANDARD: Final = "google.protobuf."
_TIMESTAMP: Final = pa.timestamp("ns", tz="UTC")
_MESSAGE: Final = 10  # FieldDescriptor.CPPTYPE_MESSAGE
_BYTES: Final = 12  # FieldDescriptor.TYPE_BYTES
_STRING: Final = 9
_BY_CPP_TYPE: Final = {
    1: pa.int32(),
    2: pa.int64(),
    3: pa.uint32(),
    4: pa.uint64(),
    5: pa.float64(),
    6: pa.float32(),
    7: pa.bool_(),
    8: pa.string(),  # enum
    _STRING: pa.string(),
}


def arrow_type_of_message(message: Any, within: tuple[str, ...] = ()) -> pa.DataType:
    """Return the type of a message by its descriptor."""
    name = message.full_name
    if name.startswith(_STANDARD):
        return _standard(message, name.removeprefix(_STANDARD))
    if name in within or not message.fields:
        return pa.string()
    inner = (*within, name)
    return pa.struct([(field.name, _of_field(field, inner)) for field in message.fields])


def _standard(message: Any, name: str) -> pa.DataType:
    if name == "Timestamp":
        return _TIMESTAMP
    return _single(message.fields_by_name["value"], ()) if name.endswith("Value") and _is_wrapper(message) else _TEXT


def _is_wrapper(message: Any) -> bool:
    return len(message.fields) == 1 and "value" in message.fields_by_name


def _of_field(field: Any, within: tuple[str, ...]) -> pa.DataType:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return pa.map_(pa.string(), _single(message.fields_by_name["value"], within))
    kind = _single(field, within)
    return pa.list_(kind) if is_repeated(field) else kind


def _single(field: Any, within: tuple[str, ...]) -> pa.DataType:
    if field.cpp_type == _MESSAGE:
        return arrow_type_of_message(field.message_type, within)
    return pa.binary() if field.type == _BYTES else _BY_CPP_TYPE[field.cpp_type]


_TEXT: Final = pa.string()
