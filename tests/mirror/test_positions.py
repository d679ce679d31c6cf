"""Positions as records, also those that MirrorMaker 2 has written."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.mirror.batches import Producer
from pylogbroker.mirror.offset_translation import UnstoredRuns
from pylogbroker.mirror.positions import (
    Position,
    PositionTable,
    position_batches,
    position_in,
    position_key,
    position_value,
)
from pylogbroker.partition_hash import partition_of_key
from pylogbroker.records.columnar import decode
from pylogbroker.wire import NO_ID

TOPIC_ID = UUID("11111111-2222-3333-4444-555555555555")


def test_records_of_mirror_maker() -> None:
    table = PositionTable("A")
    table.learn(b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]', b'{"offset":149}')
    assert table.positions == {("orders", 0): Position(150)}
    assert position_key("A", "orders", 0) == (
        b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]'
    )
    assert position_value(Position(150)) == b'{"offset":149}'


def test_topic_ids_are_kept() -> None:
    table = PositionTable("A")
    table.learn(position_key("A", "orders", 3), position_value(Position(5, TOPIC_ID)))
    assert table.positions == {("orders", 3): Position(5, TOPIC_ID)}


def test_id_of_the_cluster_is_kept_if_the_topic_has_none() -> None:
    table = PositionTable("A")
    position = position_in(5, NO_ID, "a cluster")
    assert position_value(position) == b'{"offset":4,"clusterId":"a cluster"}'
    table.learn(position_key("A", "orders", 3), position_value(position))
    assert table.positions == {("orders", 3): Position(5, NO_ID, "a cluster")}
    assert position_in(5, TOPIC_ID, "a cluster") == Position(5, TOPIC_ID)


@pytest.mark.parametrize("topic_id", [NO_ID, TOPIC_ID])
def test_leader_epoch_is_kept(topic_id: UUID) -> None:
    position = position_in(5, topic_id, 'of "a" cluster', 7)
    assert json.loads(position_value(position))["leaderEpoch"] == 7
    table = PositionTable("A")
    table.learn(position_key("A", "orders", 3), position_value(position))
    assert table.positions == {("orders", 3): position}


@pytest.mark.parametrize("epoch", [b"-2", b"2147483648", b"1.5", b"true", b'"7"', b"null"])
def test_other_epochs_are_unknown(epoch: bytes) -> None:
    table = PositionTable("A")
    table.learn(position_key("A", "orders", 3), b'{"offset":4,"leaderEpoch":%s}' % epoch)
    assert table.positions == {("orders", 3): Position(5)}


def test_tombstone_deletes_a_position() -> None:
    table = PositionTable("A")
    table.learn(position_key("A", "orders", 0), position_value(Position(5)))
    table.learn(position_key("A", "orders", 0), None)
    assert table.positions == {}


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"{}",
        b"[" * 100_000,
        b'["MirrorSourceConnector"]',
        b'["MirrorSourceConnector",{"cluster":"B","partition":0,"topic":"orders"}]',
        b'["MirrorSourceConnector",{"cluster":"A","partition":-1,"topic":"orders"}]',
        b'["MirrorSourceConnector",{"cluster":"A","partition":true,"topic":"orders"}]',
        b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":7}]',
        b"\xff",
    ],
)
def test_other_keys_are_ignored(key: bytes | None) -> None:
    table = PositionTable("A")
    table.learn(key, b'{"offset":1}')
    assert table.positions == {}


@pytest.mark.parametrize(
    "value", [b"", b"1", b'{"offset":-2}', b'{"offset":"1"}', b'{"offset":1e3}', b'{"offset":9223372036854775807}']
)
def test_other_values_are_no_positions(value: bytes) -> None:
    table = PositionTable("A")
    table.learn(position_key("A", "orders", 0), value)
    assert table.positions == {}


@given(
    st.dictionaries(
        st.tuples(st.text("abc.-_", min_size=1, max_size=8), st.integers(0, 1000)),
        st.builds(
            Position, st.integers(0, 10**17), st.sampled_from([NO_ID, TOPIC_ID]), st.just(""), st.integers(-1, 9)
        ),
        min_size=1,
    ),
    st.integers(1, 25),
)
def test_written_positions_are_read_again(positions: dict[tuple[str, int], Position], partitions: int) -> None:
    table = PositionTable("east")
    runs = {place: UnstoredRuns(position.next_offset) for place, position in positions.items() if place[1] % 2}
    headers = {place: unstored.header() for place, unstored in runs.items()}
    for partition, batch in position_batches("east", positions, headers, partitions, 1000):
        for columns in decode(batch.sealed(Producer(), -1)):
            for key, value, row in zip(columns.keys(), columns.values(), columns.headers(), strict=True):
                assert partition_of_key(key or b"", partitions) == partition
                table.learn(key, value, row)
    assert table.positions == positions
    assert table.unstored == runs


def test_runs_of_an_older_position_are_forgotten() -> None:
    table = PositionTable("A")
    key = position_key("A", "orders", 0)
    for value, headers in [(b'{"offset":1}', []), (None, []), (b'{"offset":1}', [("pylogbroker-runs", b"x y")])]:
        table.learn(key, b'{"offset":1}', [UnstoredRuns(2).header()])
        assert table.unstored == {("orders", 0): UnstoredRuns(2)}
        table.learn(key, value, headers)
        assert table.unstored == {}
