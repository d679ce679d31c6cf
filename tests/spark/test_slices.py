"""Slices and limits.  How slices are divided is asked of Spark's own source, too."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pylogbroker.spark.reading.slices import Slice, divide, limited, slices
from tests.support.oracle_answers import OracleAnswers

sizes = st.lists(st.integers(0, 10**12) | st.integers(0, 50), max_size=6)


def of(lengths: list[int]) -> list[Slice]:
    return [Slice("t", number, 7 * number, 7 * number + length) for number, length in enumerate(lengths)]


def test_slices_cover_the_ranges_between_offsets() -> None:
    start = {("b", 0): 5, ("a", 1): 0, ("a", 0): 9, ("c", 0): 3}
    end = {("b", 0): 8, ("a", 1): 1, ("a", 0): 9, ("c", 0): 2}
    assert slices(start, end) == [Slice("a", 1, 0, 1), Slice("b", 0, 5, 8)]


@given(
    sizes,
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 9) | st.integers(10**10, 10**12),
)
def test_parts_are_the_whole(lengths: list[int], least: int | None, longest: int | None) -> None:
    whole = of([min(length, 200) for length in lengths] if longest and longest < 10 else lengths)
    parts = divide([each for each in whole if len(each)], least, longest)
    assert all(len(each) > 0 for each in parts)
    assert longest is None or all(len(each) <= longest for each in parts)
    for each in whole:
        own = [part for part in parts if part.partition == each.partition]
        bounds = [each.start] + [part.end for part in own]
        assert [part.start for part in own] == bounds[:-1]
        assert bounds[-1] == each.end
        if least is None and longest is None:
            assert len(own) == (len(each) > 0)


def test_a_long_slice_is_divided_and_a_short_one_is_not() -> None:
    assert divide(of([100, 3]), 4, None) == [
        Slice("t", 0, 0, 33),
        Slice("t", 0, 33, 66),
        Slice("t", 0, 66, 100),
        Slice("t", 1, 7, 10),
    ]


def test_divided_as_spark_does_it(request: pytest.FixtureRequest, oracle: OracleAnswers) -> None:
    some = random.Random(5)
    cases = [([], 3, None), ([1], 5, None), ([5, 5], 3, None), ([2, 2, 2, 2, 2], 8, 1)]
    for _ in range(40):
        lengths = [some.choice([some.randint(1, 12), some.randint(1, 10**7)]) for _ in range(some.randint(1, 7))]
        longest = some.choice([None, max(1, sum(lengths) // some.randint(1, 12))])
        cases.append((lengths, some.choice([None, some.randint(1, 30)]), longest))

    def ask() -> list[list[tuple[str, int, int, int]]]:
        spark = request.getfixturevalue("spark")
        return [_sparks(spark, *case) for case in cases]

    for (lengths, least, longest), said in zip(cases, oracle.answer("spark-divides", repr(cases), ask), strict=True):
        assert divide(of(lengths), least, longest) == [Slice(*each) for each in said], (lengths, least, longest)


def _sparks(
    spark: SparkSession, lengths: list[int], least: int | None, longest: int | None
) -> list[tuple[str, int, int, int]]:
    jvm: Any = spark.sparkContext._jvm
    kafka, none = jvm.org.apache.spark.sql.kafka010, jvm.scala.Option.apply(None)
    options = {"minPartitions": least, "maxRecordsPerPartition": longest}
    texts = jvm.java.util.HashMap({name: str(value) for name, value in options.items() if value is not None})
    calculator = kafka.KafkaOffsetRangeCalculator.apply(jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(texts))
    ranges, locations = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
    for each in of(lengths):
        place = jvm.org.apache.kafka.common.TopicPartition(each.topic, each.partition)
        ranges.add(kafka.KafkaOffsetRange.apply(place, each.start, each.end, none))
    to_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
    found = calculator.getRanges(to_scala(ranges).toSeq(), to_scala(locations).toSeq())
    parts = jvm.scala.jdk.javaapi.CollectionConverters.asJava(found)
    return [(each.topic(), each.partition(), each.fromOffset(), each.untilOffset()) for each in parts]


@given(sizes, st.integers(1, 10**9))
def test_limits_are_shared_in_proportion_to_the_backlog(lengths: list[int], most: int) -> None:
    start = {("t", number): 3 for number in range(len(lengths))}
    end = {("t", number): 3 + length for number, length in enumerate(lengths)}
    total = sum(lengths)
    found = limited(start, end, most)
    assert found.keys() == end.keys()
    for key, length in zip(end, lengths, strict=True):
        share = found[key] - 3
        assert (share > 0) == (length > 0)  # nobody waits
        assert share <= length
        if total <= most:
            assert share == length
        else:
            assert share <= max(1, most * length / total)
            assert share >= min(length, int(most * length / total) - 1)


@pytest.mark.parametrize(
    ("lengths", "most", "shares"),
    [([10, 10], 10, [5, 5]), ([100, 50, 1], 30, [19, 9, 1]), ([1000, 1, 0], 10, [9, 1, 0]), ([3], 10, [3])],
)
def test_shares(lengths: list[int], most: int, shares: list[int]) -> None:
    keys = [("t", number) for number in range(len(lengths))]
    assert list(limited(dict.fromkeys(keys, 0), dict(zip(keys, lengths, strict=True)), most).values()) == shares


def test_an_end_that_went_back_is_not_followed() -> None:
    assert limited({("t", 0): 9, ("t", 1): 0}, {("t", 0): 4, ("t", 1): 2}, 100) == {("t", 0): 9, ("t", 1): 2}
    assert limited({("t", 0): 9, ("t", 1): 0}, {("t", 0): 4, ("t", 1): 2}, 1) == {("t", 0): 9, ("t", 1): 1}
