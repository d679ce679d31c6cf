"""Mappings of rows before they are written.

A mapping is a function, called in tasks, from a record batch with the source's columns to another. It must always
return the same columns, even for no rows; it may drop or add rows.

    def pages(rows: pa.RecordBatch) -> pa.RecordBatch:
        text = pc.cast(rows["value"], pa.string())
        return pa.record_batch({"offset": rows["offset"], "page": pc.utf8_upper(text)})

    load(spark, "one:9092", "clicks", "/data/pages", mapping=pages)

Predefined mappings add columns to those of `keep`:

    mapping=JsonValue(pa.schema([("user", pa.string()), ("amount", pa.float64())]))
    mapping=LogLine(r'(?P<client>\\S+) \\S+ \\S+ \\[(?P<time>[^\\]]+)\\] "(?P<request>[^"]*)"')
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from pylogbroker.arrow_nesting import is_nested_too_deeply
from pylogbroker.errors import ConfigError, PylogbrokerError
from pylogbroker.spark.loading.parquet import text_of

RowMapping = Callable[[pa.RecordBatch], pa.RecordBatch]
_KEPT: Final = ("topic", "partition", "offset", "timestamp")
"""Default `keep`."""


class MappingFailed(PylogbrokerError):
    """A mapping raised an error or returned an invalid result."""


@attrs.frozen
class JsonValue:
    """Mapping of JSON objects: a column per member of the schema.

    Missing members are null, extra ones ignored; a record without a value has nulls. Other values are errors, or,
    unless `strict`, nulls.
    """

    schema: pa.Schema
    keep: tuple[str, ...] = _KEPT
    strict: bool = True

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        values = pc.fill_null(rows["value"], b"null")
        table = pa.concat_tables(self._parsed(values)).combine_chunks()
        return _beside(rows, self.keep, {name: _whole(table[name]) for name in self.schema.names})

    def _parsed(self, values: pa.Array) -> list[pa.Table]:
        """Parse; bisect to find invalid values."""
        if not len(values):
            return [self.schema.empty_table()]
        try:
            return [self._at_once(values)]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if len(values) > 1:
                middle = len(values) // 2
                return self._parsed(values[:middle]) + self._parsed(values[middle:])
            if self.strict:
                text = values[0].as_py()[:200]
                raise MappingFailed(f"not a JSON object of the schema: {text!r}: {error}") from None
            return [pa.table([pa.nulls(1, field.type) for field in self.schema], self.schema)]

    def _at_once(self, values: pa.Array) -> pa.Table:
        """Parse values wrapped in objects: damaged values can neither merge nor split."""
        texts = pc.cast(values, pa.string())
        if is_nested_too_deeply(values):
            raise pa.ArrowInvalid("it is nested too deeply")
        lines = pc.binary_join_element_wise('{"value":', texts, "}\n", "")
        text = _contents(lines)
        read = pajson.ReadOptions(use_threads=False, block_size=len(text) + 1)
        wrapped = pa.schema([("value", pa.struct(list(self.schema)))])
        parse = pajson.ParseOptions(explicit_schema=wrapped, unexpected_field_behavior="ignore")
        table = pajson.read_json(pa.BufferReader(text), read, parse)
        if table.num_rows != len(values):
            raise pa.ArrowInvalid("more than one object")
        return pa.table(_whole(table["value"]).flatten(), self.schema)


@attrs.frozen
class LogLine:
    """Mapping of log lines by a regular expression with named groups, in the syntax common to Python and RE2.

    It must match the whole line; otherwise the columns are null or, if `strict`, it is an error. Each group becomes a
    column of text. With other `types`, empty texts and dashes are null. `times` gives strptime patterns, such as
    "%d/%b/%Y:%H:%M:%S %z".
    """

    pattern: str
    types: Mapping[str, pa.DataType] = attrs.field(factory=dict)
    times: Mapping[str, str] = attrs.field(factory=dict)
    keep: tuple[str, ...] = _KEPT
    strict: bool = False

    def __attrs_post_init__(self) -> None:
        try:
            groups = list(re.compile(self.pattern).groupindex)
            pc.extract_regex(pa.nulls(0, pa.string()), pattern=self._anchored() if groups else "(?P<none>)")
        except (re.error, pa.ArrowInvalid) as error:
            raise ConfigError(f"{self.pattern!r} is not a regular expression: {error}") from None
        if not groups:
            raise ConfigError(f"{self.pattern!r} has no named groups; expected at least one, such as (?P<client>\\S+)")
        unknown = sorted({*self.types, *self.times} - set(groups))
        if unknown:
            raise ConfigError(f"{self.pattern!r} has no group {', '.join(unknown)}")

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        text = _text(rows["value"])
        groups = pc.extract_regex(text, pattern=self._anchored())
        if self.strict and groups.null_count:
            first = pc.index(pc.is_null(groups), True).as_py()
            raise MappingFailed(f"a line does not match: {str(text[first])[:200]!r}")
        return _beside(rows, self.keep, {field.name: self._typed(field.name, groups) for field in groups.type})

    def _anchored(self) -> str:
        return rf"\A(?:{self.pattern})\r?\n?\z"

    def _typed(self, name: str, groups: pa.StructArray) -> pa.Array:
        column = pc.struct_field(groups, name)
        if name in self.times:
            return pc.strptime(column, format=self.times[name], unit="us", error_is_null=not self.strict)
        if name not in self.types:
            return column
        missing = pc.is_in(column, value_set=pa.array(["", "-"]))
        return pc.cast(pc.if_else(missing, None, column), self.types[name])


def mapped(mapping: RowMapping, rows: pa.RecordBatch, schema: pa.Schema | None = None) -> pa.RecordBatch:
    try:
        batch: Any = mapping(rows)
    except MappingFailed:
        raise
    except Exception as error:
        raise MappingFailed(f"the mapping failed: {type(error).__name__}: {error}") from error
    if not isinstance(batch, pa.RecordBatch):
        raise MappingFailed(f"a mapping must return a pyarrow.RecordBatch, not a {type(batch).__name__}")
    if schema is not None and not batch.schema.equals(schema):
        has, expected = (", ".join(text_of(columns).split("\n")) for columns in (batch.schema, schema))
        raise MappingFailed(f"a mapping must always return the same columns: it returned {has} after {expected}")
    return batch


def failing_rows(
    mapping: RowMapping, rows: pa.RecordBatch, schema: pa.Schema, why: MappingFailed
) -> tuple[pa.RecordBatch, MappingFailed]:
    """Bisect failing rows; return the smallest failing batch, and its error."""
    while rows.num_rows > 1:
        middle = rows.num_rows // 2
        for half in (rows[:middle], rows[middle:]):
            try:
                mapped(mapping, half, schema)
            except MappingFailed as error:
                rows, why = half, error
                break
        else:
            break
    return rows, why


def _beside(rows: pa.RecordBatch, keep: tuple[str, ...], columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    twice = sorted(set(keep) & set(columns))
    if twice:
        raise ConfigError(f"there would be two columns {', '.join(twice)}: remove them from keep, or rename them")
    return pa.record_batch({**{name: rows[name] for name in keep}, **columns})


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _contents(lines: pa.StringArray) -> pa.Buffer:
    _, offsets, data = lines.buffers()
    first, last = (int.from_bytes(memoryview(offsets)[4 * at : 4 * at + 4], sys.byteorder) for at in _ends(lines))
    return data.slice(first, last - first)


def _ends(lines: pa.StringArray) -> tuple[int, int]:
    return lines.offset, lines.offset + len(lines)


def _text(values: pa.BinaryArray) -> pa.StringArray:
    try:
        return pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        texts = (None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist())
        return pa.array(list(texts), pa.string())
