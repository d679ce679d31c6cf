"""Records of one topic as columns, and how lines become them.

    keyed, delimiter ":"    k:v      key k, value v
                            v        no key, value v
    JSON                    {...}    an object as `consume -f json` prints it

Lines become columns without a step of Python for each, as far as possible. A line that is no record raises
LineRejected, with the records before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter, methodcaller
from typing import TYPE_CHECKING, Any, Final

import attrs

from pylogbroker.cli.record_format import Parsed, decoder_of_texts, from_object, headers_of, timestamp_of
from pylogbroker.errors import ConfigError

if TYPE_CHECKING:
    from pylogbroker.records import Header

_NO_HEADERS: Final[tuple[Header, ...]] = ()
_parse_start: Final = json.JSONDecoder().raw_decode


@attrs.frozen(eq=False, repr=False)
class LineRecords:
    """Columns of equal length; a column is None if no record has a key, or headers or a timestamp of its own."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[tuple[Header, ...]] | None = None
    timestamps: Sequence[int | None] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def first(self, count: int) -> LineRecords:
        return self.slice(slice(0, count))

    def slice(self, some: slice) -> LineRecords:
        return self._each(lambda column: column[some])

    def take(self, places: list[int]) -> LineRecords:
        """Return the records at some places."""
        if len(places) == 1:
            return self.slice(slice(places[0], places[0] + 1))
        return self._each(itemgetter(*places))

    def _each(self, work: Callable[[Sequence[Any]], Sequence[Any]]) -> LineRecords:
        columns = (self.keys, self.headers, self.timestamps)
        return LineRecords(work(self.values), *(None if column is None else work(column) for column in columns))

    def rows(self) -> Iterator[Parsed]:
        """Yield key, value, headers and timestamp of each record."""
        return zip(
            self.keys or repeat(None),
            self.values,
            self.headers or repeat(_NO_HEADERS),
            self.timestamps or repeat(None),
            strict=False,
        )


@attrs.frozen
class Target:
    """Destination of records: a partition for all of them, or None, and headers that all have behind their own."""

    topic: str
    partition: int | None = None
    headers: tuple[Header, ...] = ()


class LineRejected(ConfigError):
    """A line is no record; `before` has the records of the lines before it."""

    def __init__(self, cause: ConfigError, before: LineRecords) -> None:
        super().__init__(str(cause))
        self.before = before


Columnize = Callable[[list[bytes]], LineRecords]


def columns_of_rows(rows: Iterable[Parsed]) -> LineRecords:
    """Return records that come one by one; raise LineRejected if the iterator raises ConfigError."""
    taken: list[Parsed] = []
    try:
        taken.extend(rows)
    except ConfigError as error:
        raise LineRejected(error, _of_rows(taken)) from error
    return _of_rows(taken)


def _of_rows(rows: list[Parsed]) -> LineRecords:
    keys, values, headers, timestamps = zip(*rows, strict=True) if rows else ((), (), (), ())
    return LineRecords(
        values,
        keys if any(key is not None for key in keys) else None,
        headers if any(headers) else None,
        timestamps if any(timestamp is not None for timestamp in timestamps) else None,
    )


def columns_of_lines(
    lines: list[bytes], *, key: bytes | None = None, delimiter: bytes | None = None, nulls: bool = False
) -> LineRecords:
    """Return a record for each line; with `nulls`, empty keys and values are null."""
    keys: Sequence[bytes | None] | None = None if key is None else [key] * len(lines)
    values: Sequence[bytes | None] = lines
    if delimiter is not None and lines:
        befores, separators, afters = zip(*map(methodcaller("partition", delimiter), lines), strict=True)
        keys, values = befores, afters
        if not all(separators):
            keys = [before if separator else None for before, separator in zip(befores, separators, strict=True)]
            values = [
                after if separator else line for after, separator, line in zip(afters, separators, lines, strict=True)
            ]
    if nulls:
        keys, values = None if keys is None else _with_nulls(keys), _with_nulls(values)
    if keys is not None and keys.count(None) == len(keys):
        keys = None
    return LineRecords(values, keys)


def _with_nulls(fields: Sequence[bytes | None]) -> Sequence[bytes | None]:
    return [field or None for field in fields] if b"" in fields else fields


def columns_of_json(lines: list[bytes], base64: bool) -> LineRecords:
    """Return the records of lines of JSON; raise LineRejected."""
    try:
        return _json_columns(lines, base64)
    except (ValueError, TypeError, AttributeError, RecursionError, ConfigError):
        return columns_of_rows(row_of_json(line, base64) for line in lines)  # one of them may be wrong


def row_of_json(line: bytes, base64: bool, json_fields: Container[str] = ()) -> Parsed:
    """Return key, value, headers and timestamp of a line of JSON; raise ConfigError."""
    try:
        return from_object(line.decode(), base64, json_fields)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{line[:60]!r} is no record: JSON is in UTF-8: {error}") from error


def _json_columns(lines: list[bytes], base64: bool) -> LineRecords:
    """Return records of lines without whitespace around their JSON; raise any error that `row_of_json` makes one of."""
    texts = list(map(bytes.decode, lines))
    objects, ends = zip(*map(_parse_start, texts), strict=True)
    if list(ends) != list(map(len, texts)) or set(map(type, objects)) != {dict}:
        raise ValueError("a line has more or less than an object")
    decode = decoder_of_texts(base64)

    def column(name: str) -> list[Any]:
        return list(map(methodcaller("get", name), objects))

    def contents(name: str) -> list[bytes | None]:
        texts = column(name)
        return list(map(str.encode, texts)) if not base64 and None not in texts else list(map(decode, texts))

    headers, timestamps = column("headers"), column("timestamp")
    return LineRecords(
        contents("value"),
        contents("key") if any(key is not None for key in column("key")) else None,
        [headers_of(pairs, decode) for pairs in headers] if any(headers) else None,
        list(map(timestamp_of, timestamps)) if any(time is not None for time in timestamps) else None,
    )
