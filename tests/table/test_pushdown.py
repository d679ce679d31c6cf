"""Conditions that reduce reads: which ranges are read, and that no row is missed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.table.bounds import ReadRange
from pylogbroker.table.pushdown import FilterBounds, narrowed_ranges
from tests.support.examples import examples

TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIME),
        ("topic", pa.string()),
        ("value", pa.struct([("a", pa.int64())])),
    ]
)
RANGES = [ReadRange(partition, 10, 30) for partition in range(3)]
FIELDS = {"partition": st.integers(-1, 3), "offset": st.integers(5, 35), "timestamp": st.integers(-5, 40)}
OPERATORS = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__")


def moment(number: int) -> Any:
    return pa.scalar(number * 1000, TIME)


@st.composite
def comparisons(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(sorted(FIELDS)))
    number = draw(FIELDS[name])
    kind = draw(st.sampled_from([*OPERATORS, "isin", "null", "between"]))
    field = ds.field(name)
    if kind == "null":
        return draw(st.sampled_from([field.is_null(), field.is_valid(), field.is_null(nan_is_null=True)]))
    values = draw(st.lists(FIELDS[name].map(moment) if name == "timestamp" else FIELDS[name], min_size=1, max_size=3))
    if kind == "isin":
        listed = pa.array(
            [value.as_py() if name == "timestamp" else value for value in values], SCHEMA.field(name).type
        )
        return field.isin(listed)
    if kind == "between":
        return (field >= values[0]) & (field <= values[-1])
    literal = draw(literals(name, number))
    return getattr(draw(variants(name)), kind)(literal)


def literals(name: str, number: int) -> st.SearchStrategy[Any]:
    """Return a number as values of several types; null, too."""
    kind = SCHEMA.field(name).type
    if name == "timestamp":
        others = [
            pa.scalar(number, pa.timestamp("ms", tz="UTC")),
            pa.scalar(number * 1_000_000, pa.timestamp("ns", tz="UTC")),
        ]
        return st.sampled_from([moment(number), *others, pa.scalar(None, kind)])
    return st.sampled_from(
        [pa.scalar(number, kind), pa.scalar(number, pa.int8()), pa.scalar(number + 0.5), pa.scalar(None, kind)]
    )


def variants(name: str) -> st.SearchStrategy[Any]:
    """Return a field alone, or within another expression of its type."""
    field = ds.field(name)
    if name == "timestamp":
        return st.sampled_from([field, field.cast(pa.timestamp("ms", tz="UTC"), safe=False)])
    return st.sampled_from([field, field + 0, field * 2, field.cast(pa.float64()), pc.if_else(field > 12, field, 0)])


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: st.tuples(inner, inner).flatmap(
        lambda pair: st.sampled_from([pair[0] & pair[1], pair[0] | pair[1], ~pair[0]])
    ),
    max_leaves=5,
)


def rows() -> pa.Table:
    """Return all rows of the ranges; timestamps go back and forth, and some are null."""
    partitions = [part.partition for part in RANGES for _ in range(len(part))]
    offsets = [offset for part in RANGES for offset in range(part.start, part.end)]
    times = [None if offset % 7 == 0 else (offset * 5 % 31) * 1000 for offset in offsets]
    columns = {"partition": partitions, "offset": offsets, "timestamp": times}
    columns["topic"] = ["orders"] * len(offsets)
    columns["value"] = [{"a": offset} for offset in offsets]
    return pa.table(columns, SCHEMA)


@given(CONDITIONS)
@settings(max_examples=examples(300), deadline=None)
def test_no_row_is_missed(condition: Any) -> None:
    bounds = FilterBounds(condition, SCHEMA, "orders")
    since_ms = bounds.since_ms()
    kept = {part.partition: part for part in narrowed_ranges(bounds, RANGES)}
    for row in rows().filter(condition).to_pylist():
        part = kept[row["partition"]]
        assert part.start <= row["offset"] < part.end
        if since_ms is not None:
            assert row["timestamp"].timestamp() * 1000 >= since_ms


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (ds.field("offset") >= 15, [(0, 15, 30), (1, 15, 30), (2, 15, 30)]),
        ((ds.field("offset") > 15) & (ds.field("offset") < 20), [(0, 16, 20), (1, 16, 20), (2, 16, 20)]),
        ((ds.field("partition") == 1) & (ds.field("offset") == 12), [(1, 12, 13)]),
        (ds.field("partition").isin([0, 2]), [(0, 10, 30), (2, 10, 30)]),
        (ds.field("partition") != 1, [(0, 10, 30), (2, 10, 30)]),
        ((ds.field("offset") < 12) | (ds.field("partition") == 2), [(0, 10, 12), (1, 10, 12), (2, 10, 30)]),
        (ds.field("topic") == "others", []),
        (ds.field("offset") > 100, []),
        (ds.field("value", "a") > 100, [(0, 10, 30), (1, 10, 30), (2, 10, 30)]),
    ],
    ids=str,
)
def test_ranges_that_are_read(condition: Any, expected: list[tuple[int, int, int]]) -> None:
    parts = narrowed_ranges(FilterBounds(condition, SCHEMA, "orders"), RANGES)
    assert [(part.partition, part.start, part.end) for part in parts] == expected


def test_the_time_from_which_is_read() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    at_ms = int(at.timestamp() * 1000)
    later = ds.field("timestamp") > pa.scalar(at, TIME)
    assert FilterBounds(later & (ds.field("offset") > 5), SCHEMA, "orders").since_ms() == at_ms
    assert FilterBounds(later | ds.field("timestamp").is_null(), SCHEMA, "orders").since_ms() is None
    assert FilterBounds(ds.field("timestamp") < pa.scalar(at, TIME), SCHEMA, "orders").since_ms() is None


def test_columns_that_a_condition_uses() -> None:
    condition = (ds.field("value", "a") > 1) & (ds.field("offset") > 2)
    assert FilterBounds(condition, SCHEMA, "orders").columns() == ["offset", "value"]
