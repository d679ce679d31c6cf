"""Which partition rows go to."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from pylogbroker.client.metadata import PartitionInfo, TopicInfo
from pylogbroker.errors import KafkaError
from pylogbroker.spark.writing.encoder import BinaryColumns
from pylogbroker.spark.writing.partitioner import RowPartitioner, grouped


def test_by_partition_then_by_key_then_one_after_the_other() -> None:
    keys: list[bytes | None] = [b"one", b"two", b"", None, b"five"]
    chosen = pa.array([2, None, None, None, 0], pa.int32())
    found = RowPartitioner(_topic(3), 1000).of(_rows(keys), chosen).tolist()
    assert (found[0], found[4]) == (2, 0)
    assert found[1:3] == [(murmur2(key) & 0x7FFFFFFF) % 3 for key in (b"two", b"")]
    assert 0 <= found[3] < 3


def test_rows_without_keys_stay_together_and_reach_all_partitions() -> None:
    found = RowPartitioner(_topic(4), 5000).of(BinaryColumns(pa.array([b"x" * 90] * 1000, pa.binary()))).tolist()
    changes = sum(before != after for before, after in itertools.pairwise(found))
    assert {found.count(number) >= 200 for number in range(4)} == {True}
    assert changes <= 21


def test_later_rows_continue_with_the_current_partition() -> None:
    places = RowPartitioner(_topic(4), 5000)
    rows = BinaryColumns(pa.array([b"x" * 90] * 20, pa.binary()))
    assert len({int(number) for _ in range(12) for number in places.of(rows)}) == 4


def test_rows_without_keys_go_round_partitions_that_nobody_leads() -> None:
    """Rows with keys go to the partition of the key, led or not."""
    places = RowPartitioner(_topic(4, dead=[0, 2]), 100)
    assert {int(number) for number in places.of(BinaryColumns(pa.array([b"x" * 90] * 50, pa.binary())))} == {1, 3}
    keys: list[bytes | None] = [b"%d" % number for number in range(30)]
    assert places.of(_rows(keys)).tolist() == [(murmur2(key) & 0x7FFFFFFF) % 4 for key in keys]
    assert {int(number) for number in RowPartitioner(_topic(4, dead=range(4)), 1).of(_rows([None] * 20))} == {
        0,
        1,
        2,
        3,
    }


@pytest.mark.parametrize(("chosen", "there"), [([2, None], True), ([None, 3], False), ([None], True)])
def test_whether_there_are_the_partitions_that_rows_name(chosen: list[int | None], there: bool) -> None:
    assert RowPartitioner(_topic(3), 1000).have(pa.array(chosen, pa.int32())) == there


@pytest.mark.parametrize("number", [-1, 3])
def test_a_partition_that_there_is_not(number: int) -> None:
    with pytest.raises(KafkaError, match=f"topic t has 3 partitions, so no partition {number}"):
        RowPartitioner(_topic(3), 1000).of(_rows([b"one", b"two"]), pa.array([1, number], pa.int32()))


@given(st.lists(st.integers(0, 5) | st.just(40_000), min_size=1, max_size=50))
def test_rows_of_a_partition_come_together_and_keep_their_order(partitions: list[int]) -> None:
    order, runs = grouped(np.array(partitions, np.int32))
    rows = list(range(len(partitions))) if order is None else order.tolist()
    assert sorted(rows) == list(range(len(partitions)))
    numbers = [partitions[row] for row in rows]
    for start, end in zip(runs, [*runs[1:], len(rows)], strict=True):
        assert len(set(numbers[start:end])) == 1
        assert rows[start:end] == sorted(rows[start:end])
    assert len(runs) == len(set(partitions))


def _rows(keys: list[bytes | None]) -> BinaryColumns:
    return BinaryColumns(pa.array([b"v"] * len(keys), pa.binary()), pa.array(keys, pa.binary()))


def _topic(partitions: int, dead: Collection[int] = ()) -> TopicInfo:
    """One of which nobody leads some partitions."""
    found = (PartitionInfo(-1 if number in dead else 7, 0, (7,), (7,)) for number in range(partitions))
    return TopicInfo("t", UUID(int=1), tuple(found))
