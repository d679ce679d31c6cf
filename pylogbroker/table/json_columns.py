"""Columns of JSON: many texts at once by Arrow's reader, and one by one where it rejects some.

Arrow reads lines. Each text becomes a member of an object, so that every text is exactly one row:

    {"v":text}⏎{"v":text}⏎...

Within JSON, no `}` and line feed are followed by `{`. So a text that is cut or empty is an error of Arrow's, and one of
several values changes the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from pylogbroker.arrow_nesting import is_nested_too_deeply
from pylogbroker.table.contents import Failures, one_by_one
from pylogbroker.table.errors import TableError
from pylogbroker.table.json_types import completed, is_deep, type_of_value, unified, without_times
from pylogbroker.table.json_values import converter, has_decimals, is_plain, parsed

_MEMBER: Final = "v"
_HEAD: Final = pa.scalar(b'{"v":')
_TAIL: Final = pa.scalar(b"}\n")
_NULL: Final = pa.scalar(b"null")


@attrs.define(eq=False, repr=False)
class JsonForm:
    """JSON as members of a type that is given, or inferred from a sample."""

    _given: pa.DataType | None = None
    needs_headers = False
    _inferred: pa.DataType = attrs.field(factory=pa.null, init=False)

    @property
    def is_sampled(self) -> bool:
        return self._given is None

    @property
    def type(self) -> pa.DataType:
        return completed(self._inferred) if self._given is None else self._given

    @property
    def learned(self) -> pa.DataType:
        return self._inferred

    def learn(self, contents: pa.Array, headers: pa.Array | None) -> None:
        self._inferred = unified(self._inferred, inferred_type(contents))

    def decoded(self, contents: pa.Array, headers: pa.Array | None, failures: Failures) -> pa.Array:
        return json_column(contents, self.type, failures)

    def decoded_as(
        self, kind: pa.DataType, contents: pa.Array, headers: pa.Array | None, failures: Failures
    ) -> pa.Array:
        return json_column(contents, kind, failures)


def type_of_schema(name: str, given: object) -> pa.DataType:
    """Return the type that a user gives for JSON; raise TableError."""
    if isinstance(given, pa.DataType):
        kind = given
    elif isinstance(given, pa.Schema):
        kind = pa.struct(list(given))
    elif isinstance(given, dict):
        try:
            kind = pa.struct(list(given.items()))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise TableError(f'{name}: {error}; expected types of pyarrow, such as {{"user": pa.string()}}') from error
    else:
        raise TableError(f"{name}: {type(given).__name__} is not accepted; expected a schema or a type of pyarrow")
    converter(kind)
    return kind


def json_column(texts: pa.Array, kind: pa.DataType, failures: Failures) -> pa.Array:
    """Return texts as values of a type."""
    if is_plain(kind):
        column = _by_arrow(texts, kind)
        if column is not None:
            return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    convert, exact = converter(kind), has_decimals(kind)
    return one_by_one(texts, lambda _, text: convert(parsed(text, exact=exact)), kind, failures)


def inferred_type(texts: pa.Array) -> pa.DataType:
    """Return the type that has all values; texts that are no JSON count as nothing."""
    column = _by_arrow(texts, None)
    if column is not None and not is_deep(column.type):
        return without_times(column.type)
    kind = pa.null()
    for text in texts.to_pylist():
        if text is not None:
            kind = unified(kind, _type_of_text(text))
    return kind


def _type_of_text(text: bytes) -> pa.DataType:
    try:
        return type_of_value(parsed(text, exact=False))
    except (ValueError, RecursionError):
        return pa.null()


def _by_arrow(texts: pa.Array, kind: pa.DataType | None) -> pa.ChunkedArray | None:
    """Return the column that Arrow reads; None if it rejects some text."""
    if not len(texts) or texts.null_count == len(texts):
        return pa.chunked_array([pa.nulls(len(texts), kind)])
    try:
        texts.cast(pa.string())  # strings of JSON are not checked otherwise
        if is_nested_too_deeply(texts):
            return None
        lines = _lines(texts)
        block = arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        table = arrow_json.read_json(pa.BufferReader(lines), block, _parse_options(kind))
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    is_whole = table.num_rows == len(texts) and table.column_names == [_MEMBER]
    return table.column(0) if is_whole else None


def _lines(texts: pa.Array) -> pa.Buffer:
    whole = pc.fill_null(texts, _NULL) if texts.null_count else texts
    lines = pc.binary_join_element_wise(_HEAD, whole, _TAIL, pa.scalar(b""))
    first, last = lines.offset, lines.offset + len(lines)
    bounds: Sequence[Any] = memoryview(lines.buffers()[1]).cast("i")
    data: pa.Buffer = lines.buffers()[2]
    return data.slice(bounds[first], bounds[last] - bounds[first])


def _parse_options(kind: pa.DataType | None) -> arrow_json.ParseOptions:
    if kind is None:
        return arrow_json.ParseOptions()
    return arrow_json.ParseOptions(explicit_schema=pa.schema([(_MEMBER, kind)]), unexpected_field_behavior="error")
