"""Rows of queries as a table, JSON, CSV or Parquet.

| form    | rows                                                                                    |
|---------|-----------------------------------------------------------------------------------------|
| table   | the first 1000, for people; an EXPLAIN as DuckDB draws it                               |
| json    | an array with a line for each row                                                       |
| csv     | with a line of names; nested values are JSON                                            |
| parquet | all types as they are                                                                   |

JSON has times as ISO 8601, and bytes as text, with `\\x00` for what is not printable. Numbers that a double does not
hold are text.

Of columns with one name, later ones get a number, but not in a table: offset, offset_1.
"""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import count, islice
from pathlib import Path
from typing import IO, Any, Final

import click
import pyarrow as pa
import pyarrow.parquet as pq

from pylogbroker.cli.output import escaped, note, plain_table, rich_table

_BATCH_ROWS: Final = 10_000
_SHOWN_ROWS_MAX: Final = 1000
_PRINTABLE: Final = range(0x20, 0x7F)
_TIMES: Final = (date, time)
_PLAN: Final = ["explain_key", "explain_value"]


def write(relation: Any, form: str, path: str | None, ready: Callable[[], object] = lambda: None) -> None:
    """Write the rows of a relation of DuckDB to a file or the standard output, as they come.

    A table is complete before its first line: `ready` is called then.
    """
    reader = relation.to_arrow_reader(_BATCH_ROWS)
    if form == "parquet":
        _write_parquet(reader, path)
        return
    with _opened(path) as file:
        if form == "table":
            _write_table(reader.schema.names, _rows(reader), file, ready)
        else:
            _WRITERS[form](_distinct(reader.schema.names), _rows(reader), file)
        file.flush()


@contextmanager
def _opened(path: str | None) -> Iterator[IO[str]]:
    if path is None:
        yield sys.stdout
        return
    with _replaced(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        yield file


@contextmanager
def _replaced(path: str) -> Iterator[Path]:
    """Yield the name of a file that gets its place when it is complete."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _write_parquet(reader: pa.RecordBatchReader, path: str | None) -> None:
    if path is None:
        raise click.UsageError("--format parquet needs --output FILE: it is binary")
    names = _distinct(reader.schema.names)
    schema = pa.schema(
        [pa.field(name, _storable(field.type)) for name, field in zip(names, reader.schema, strict=True)]
    )
    with _replaced(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for batch in reader:
            columns = list(map(_stored, batch.columns))
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names of columns of which no two are the same."""
    distinct: list[str] = []
    taken, seen = set(names), set[str]()
    for name in names:
        distinct_name = name
        if name in seen:
            numbered = (f"{name}_{number}" for number in count(1))
            distinct_name = next(candidate for candidate in numbered if candidate not in taken)
        seen.add(name)
        taken.add(distinct_name)
        distinct.append(distinct_name)
    return distinct


def _storable(kind: pa.DataType) -> pa.DataType:
    """Return a type that Parquet has: text for intervals."""
    return pa.string() if pa.types.is_interval(kind) else kind


def _stored(column: pa.Array) -> pa.Array:
    is_stored = _storable(column.type) == column.type
    return column if is_stored else pa.array(_values(column), pa.string())


def _rows(reader: pa.RecordBatchReader) -> Iterator[list[Any]]:
    """Yield rows with values that JSON has."""
    for batch in reader:
        columns = [_values(column) for column in batch.columns]
        yield from map(list, zip(*columns, strict=True))


def _values(column: pa.Array) -> list[Any]:
    try:
        values = column.to_pylist(maps_as_pydicts="lossy")
    except (ValueError, OverflowError):  # a time beyond the years that Python has
        values = column.cast(pa.string()).to_pylist()
    return [plain(value) for value in values]


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return "".join(chr(byte) if byte in _PRINTABLE else f"\\x{byte:02X}" for byte in value)
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, _TIMES):
        return value.isoformat()
    if isinstance(value, pa.MonthDayNano):
        return f"{value.months} months {value.days} days {timedelta(microseconds=value.nanoseconds // 1000)}"
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(member) for name, member in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else str(value)


def _number(value: Decimal) -> int | float | str:
    """Return a number that is the same in JSON, else its text."""
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else str(value)


def _write_table(names: list[str], rows: Iterator[list[Any]], file: IO[str], ready: Callable[[], object]) -> None:
    if names == _PLAN:
        plans = [plan for _, plan in rows]
        ready()
        for plan in plans:
            click.echo(plan, file=file)
        return
    shown = list(islice(rows, _SHOWN_ROWS_MAX))
    has_more = next(rows, None) is not None
    ready()
    if not shown:
        note("(no rows)")
        return
    are_numbers = [all(_is_number(row[index]) for row in shown) for index in range(len(names))]
    cells = [[escaped(_cell(value)) for value in row] for row in shown]
    heads = [escaped(name) for name in names]
    make = rich_table if file.isatty() else plain_table
    for line in make(heads, are_numbers, cells):
        click.echo(line, file=file)
    if has_more:
        note(f"The first {_SHOWN_ROWS_MAX} rows are shown: --format csv or json has all, LIMIT fewer.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_json(names: list[str], rows: Iterator[list[Any]], file: IO[str]) -> None:
    before = "["
    for row in rows:
        line = json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=not _is_utf_8(file))
        file.write(f"{before}\n{line}")
        before = ","
    file.write("[]\n" if before == "[" else "\n]\n")


def _is_utf_8(file: Any) -> bool:
    return not file.isatty() and (file.encoding or "").lower().replace("-", "") == "utf8"


def _write_csv(names: list[str], rows: Iterable[list[Any]], file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow(["" if value is None else _cell(value) for value in row])


_WRITERS: Final[Mapping[str, Callable[[list[str], Iterator[list[Any]], IO[str]], None]]] = {
    "json": _write_json,
    "csv": _write_csv,
}
