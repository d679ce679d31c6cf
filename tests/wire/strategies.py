"""Messages made by hypothesis, as their declarations allow in a version."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from pylogbroker.wire.schema import Field, FieldType, fields_of


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


LONG = "a name of more than 127 bytes " * 5
KINDS: dict[FieldType, st.SearchStrategy[Any]] = {
    FieldType.BOOLEAN: st.booleans(),
    FieldType.INT8: integers(8),
    FieldType.INT16: integers(16),
    FieldType.INT32: integers(32),
    FieldType.INT64: integers(64),
    FieldType.FLOAT64: st.floats(allow_nan=False),
    FieldType.UUID: st.integers(0, (1 << 128) - 1).map(lambda number: UUID(int=number)),
    FieldType.STRING: st.text(max_size=4) | st.sampled_from(["", "topic", "名前", LONG]),
    FieldType.ERROR_TEXT: st.text(max_size=4) | st.sampled_from(["", "an error", "名前", LONG]),
    FieldType.BYTES: st.binary(max_size=4) | st.just(bytes(range(256))),
    FieldType.RECORDS: st.binary(max_size=4) | st.just(bytes(range(256)) * 2),
}
ERRORS = st.integers(-1, 105)
"""Codes that every peer has a name for."""
DURATIONS = st.integers(-1, 1 << 30)
"""Milliseconds that every peer can tell as a duration."""
INSTANTS = st.integers(0, 1 << 31).map(lambda seconds: seconds * 1000)
"""Milliseconds that every peer can tell as a date."""


@cache
def messages(cls: type, version: int) -> st.SearchStrategy[Any]:
    """The structs of a class that a version can carry."""
    return st.builds(cls, **{field.name: values(field, version) for field in fields_of(cls) if field.is_in(version)})


def values(field: Field, version: int) -> st.SearchStrategy[Any]:
    """Return values that a field may have."""
    strategy = messages(field.kind, version) if isinstance(field.kind, type) else _primitives(field)
    if field.is_array:
        strategy = st.lists(strategy, max_size=2)
    return st.none() | strategy if field.is_nullable(version) else strategy


def _primitives(field: Field) -> st.SearchStrategy[Any]:
    if field.name.endswith("error_code"):
        return ERRORS
    if field.name == "log_append_time_ms":
        return st.just(-1) | INSTANTS
    if field.name == "transaction_start_time_ms":  # a peer has no word for none
        return INSTANTS
    if field.name.endswith("_timestamp_ms"):
        return INSTANTS
    return DURATIONS if field.name.endswith("_ms") else KINDS[field.kind]
