"""Filters that are pushed down: never a row too few, and those that are taken whole never one too many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from pylogbroker.spark.reading.filter_pushdown import FilterPushdown
from pylogbroker.spark.reading.slices import Slice

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TESTS: dict[type[Filter], Any] = {
    EqualTo: lambda value, wanted: value == wanted,
    EqualNullSafe: lambda value, wanted: value == wanted,
    GreaterThan: lambda value, wanted: value > wanted,
    GreaterThanOrEqual: lambda value, wanted: value >= wanted,
    LessThan: lambda value, wanted: value < wanted,
    LessThanOrEqual: lambda value, wanted: value <= wanted,
    In: lambda value, wanted: value in wanted,
}
Row = dict[str, Any]


def holds(each: Any, row: Row) -> bool:
    if isinstance(each, Not):
        return not holds(each.child, row)
    return bool(TESTS[type(each)](row[each.attribute[0]], each.value))


def filters_of(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    kinds = st.sampled_from([kind for kind in TESTS if kind is not In])
    simple = st.builds(lambda kind, value: kind((column,), value), kinds, values)
    some = st.builds(lambda found: In((column,), tuple(found)), st.lists(values, min_size=1, max_size=3))
    return simple | some | st.builds(Not, simple | some)


times = st.integers(-2000, 9000).map(lambda us: EPOCH + timedelta(microseconds=us))
filters = st.lists(
    filters_of("topic", st.sampled_from("abc"))
    | filters_of("partition", st.integers(-1, 3))
    | filters_of("offset", st.integers(-1, 12))
    | filters_of("timestamp", times),
    max_size=5,
)


@given(filters, st.lists(st.integers(-3, 9), min_size=10, max_size=10))
def test_the_same_rows_are_left(given_filters: list[Filter], stamps: list[int]) -> None:
    pushdown, left = FilterPushdown.of(given_filters)
    assert all(any(each is one for one in given_filters) for each in left)
    for partition in (("a", 0), ("b", 1), ("b", 2)):
        rows = [
            {"topic": partition[0], "partition": partition[1], "offset": offset, "timestamp": moment(stamp)}
            for offset, stamp in enumerate(stamps)
        ]
        wanted = [row for row in rows if all(holds(each, row) for each in given_filters)]
        read = rows[slice(*span(pushdown, partition, stamps))]
        assert [row for row in read if all(holds(each, row) for each in left)] == wanted


def span(pushdown: FilterPushdown, partition: tuple[str, int], stamps: list[int]) -> tuple[int, int]:
    if not pushdown.takes(partition):
        return 0, 0
    since = pushdown.since
    late = [offset for offset, stamp in enumerate(stamps) if since is not None and stamp >= since]
    firsts = {} if since is None else {partition: min(late, default=len(stamps))}
    part = pushdown.of_slice(Slice(*partition, 0, len(stamps)), firsts)
    return part.start, part.end


def moment(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    "each",
    [
        IsNotNull(("timestamp",)),
        IsNull(("key",)),
        EqualTo(("key",), b"k"),
        EqualTo(("headers", "key"), "h"),
        EqualTo(("offset",), None),
        StringStartsWith(("topic",), "a"),
        EqualTo(("timestamp",), datetime(2024, 1, 1)),
        LessThan(("timestamp",), datetime(2024, 1, 1, tzinfo=UTC)),
        In(("partition",), (1, None)),
    ],
)
def test_other_filters_are_left_to_spark(each: Filter) -> None:
    assert FilterPushdown.of([each]) == (FilterPushdown(), [each])


def test_supported_filters_are_taken_whole() -> None:
    found = [IsNotNull(("offset",)), GreaterThan(("offset",), 3), LessThanOrEqual(("offset",), 8)]
    pushdown, left = FilterPushdown.of([*found, EqualTo(("partition",), 1)])
    assert left == []
    assert pushdown.of_slice(Slice("t", 1, 0, 100), {}) == Slice("t", 1, 4, 9)
    assert [pushdown.takes(("t", number)) for number in range(3)] == [False, True, False]


def test_a_slice_that_nothing_is_left_of_is_empty() -> None:
    pushdown, _ = FilterPushdown.of([GreaterThan(("offset",), 30)])
    assert len(pushdown.of_slice(Slice("t", 0, 5, 10), {})) == 0
