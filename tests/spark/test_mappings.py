"""Mappings of columns to columns; the oracles are Python's json and re."""

from __future__ import annotations

import json
import re
from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import ConfigError
from pylogbroker.spark.loading.mappings import JsonValue, LogLine, MappingFailed, mapped
from pylogbroker.table.decoder import TYPES

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("inner", pa.struct([("b", pa.bool_())]))])
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-(1 << 60), 1 << 60) | st.none(),
        "s": st.text(st.characters(exclude_categories=["Cs"])) | st.none(),
        "inner": st.fixed_dictionaries({}, optional={"b": st.booleans()}),
        "more": st.lists(st.integers(0, 9)),
    },
)
LINE = r'(?P<client>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] "(?P<request>[^"]*)" (?P<status>\d+) (?P<size>\S+)'
WHEN = "%d/%b/%Y:%H:%M:%S %z"


def rows(values: list[bytes | None]) -> pa.RecordBatch:
    columns = {name: pa.nulls(len(values), kind) for name, kind in TYPES.items()}
    return pa.record_batch({**columns, "value": pa.array(values, pa.binary())})


@given(st.lists(OBJECTS, max_size=8), st.sampled_from([None, 1]))
def test_json(objects: list[dict[str, object]], indent: int | None) -> None:
    values = [json.dumps(each, indent=indent).encode() for each in objects]
    expected = []
    for each in objects:
        inner = each.get("inner")
        found = {"b": inner.get("b")} if isinstance(inner, dict) else None
        expected.append({"n": each.get("n"), "s": each.get("s"), "inner": found})
    assert JsonValue(SCHEMA, keep=())(rows(values)).to_pylist() == expected


BAD = [b"", b"no", b"[1]", b"3", b'{"n": 1}{"n": 2}', b'{"n": "one"}', b'{"n": 1.5}', b'{"s": "\xff"}', b'{"n":', b'"a']


@pytest.mark.parametrize("bad", BAD)
def test_invalid_json_becomes_null_or_an_error(bad: bytes) -> None:
    values = [b'{"n": %d}' % n for n in range(5)]
    with_bad = rows([*values[:3], bad, *values[3:], None])
    found = JsonValue(SCHEMA, strict=False)(with_bad)
    assert found["n"].to_pylist() == [0, 1, 2, None, 3, 4, None]
    with pytest.raises(MappingFailed, match=re.escape(f"not a JSON object of the schema: {bad!r}")):
        JsonValue(SCHEMA)(with_bad)


def test_json_that_is_nested_too_deeply_is_invalid() -> None:
    """Arrow would crash, also by a member that is ignored."""
    deep = b'{"n": 1, "other": %s1%s}' % (b"[" * 300_000, b"]" * 300_000)
    assert JsonValue(SCHEMA, strict=False)(rows([deep, b'{"n": 2}']))["n"].to_pylist() == [None, 2]
    with pytest.raises(MappingFailed, match="it is nested too deeply"):
        JsonValue(SCHEMA)(rows([deep]))


@given(st.lists(st.sampled_from(BAD) | st.binary(max_size=6), max_size=5))
def test_rows_stay_aligned_with_any_values_between(values: list[bytes]) -> None:
    between = [each for value in values for each in (b'{"n": 7, "s": "x"}', value)]
    found = JsonValue(SCHEMA, keep=(), strict=False)(rows([*between])).to_pylist()
    assert len(found) == len(between)
    assert [(each["n"], each["s"]) for each in found[::2]] == [(7, "x")] * len(values)


def test_lines_of_a_log() -> None:
    lines = [
        '192.0.2.7 - - [17/May/2015:10:05:03 +0200] "GET /a HTTP/1.1" 200 2326',
        '192.0.2.8 - - [17/May/2015:10:05:04 +0000] "GET /\N{GREEK SMALL LETTER ALPHA} HTTP/1.1" 304 -',
        "nonsense",
    ]
    mapping = LogLine(LINE, types={"status": pa.int32(), "size": pa.int64()}, times={"time": WHEN}, keep=())
    found = mapping(
        rows([*(line.encode() for line in lines), None, lines[0].encode() + b"\r\n", b"\xff" + lines[0].encode()])
    )
    first, second, third, fourth, fifth, sixth = found.to_pylist()
    for line, row in zip(lines[:2], (first, second), strict=True):
        match = re.fullmatch(LINE, line)
        assert match is not None
        assert (row["client"], row["request"], row["status"]) == (
            match["client"],
            match["request"],
            int(match["status"]),
        )
        assert row["time"] == datetime.strptime(match["time"], WHEN)
        assert row["size"] == (None if match["size"] == "-" else int(match["size"]))
    assert set(third.values()) == set(fourth.values()) == {None}
    assert fifth == first
    assert sixth["client"] == "\N{REPLACEMENT CHARACTER}192.0.2.7"
    assert mapping(rows([])).schema == found.schema
    with pytest.raises(MappingFailed, match="a line does not match: 'nonsense'"):
        LogLine(LINE, strict=True)(rows([line.encode() for line in lines]))


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ({"pattern": "("}, "is not a regular expression"),
        ({"pattern": r"(?P<a>x)(?=y)"}, "is not a regular expression"),
        ({"pattern": "(x)"}, "has no named groups"),
        ({"pattern": "(?P<a>x)", "types": {"b": pa.int64()}}, "has no group b"),
    ],
)
def test_invalid_patterns_are_rejected(arguments: dict[str, object], reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
        LogLine(**arguments)  # type: ignore[arg-type]


def test_columns_are_kept() -> None:
    found = JsonValue(SCHEMA)(rows([b"{}"]))
    assert found.schema.names == ["topic", "partition", "offset", "timestamp", "n", "s", "inner"]
    with pytest.raises(ConfigError, match="two columns offset"):
        JsonValue(pa.schema([("offset", pa.int64())]))(rows([b"{}"]))


def test_mappings_that_are_wrong() -> None:
    batch = rows([b"x"])
    with pytest.raises(MappingFailed, match=r"the mapping failed: KeyError: .*nothing"):
        mapped(lambda rows: rows["nothing"], batch)
    with pytest.raises(MappingFailed, match=r"must return a pyarrow.RecordBatch, not a Table"):
        mapped(lambda rows: pa.Table.from_batches([rows]), batch)  # type: ignore[arg-type, return-value]
    with pytest.raises(MappingFailed, match="return the same columns: it returned n: int64 after n: string"):
        mapped(lambda rows: pa.record_batch({"n": [1]}), batch, pa.schema([("n", pa.string())]))
