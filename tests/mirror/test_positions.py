"""Positions as records, also those that MirrorMaker 2 has written."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.mirror.batches import Producer
from pylogbroker.mirror.positions import Position, PositionTable, position_batches, position_key, position_value
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
        st.builds(Position, st.integers(0, 1 << 60), st.sampled_from([NO_ID, TOPIC_ID])),
        min_size=1,
    ),
    st.integers(1, 25),
)
def test_written_positions_are_read_again(positions: dict[tuple[str, int], Position], partitions: int) -> None:
    table = PositionTable("east")
    for partition, batch in position_batches("east", positions, partitions, 1000):
        for columns in decode(batch.sealed(Producer(), -1)):
            for key, value in zip(columns.keys(), columns.values(), strict=True):
                assert partition_of_key(key or b"", partitions) == partition
                table.learn(key, value)
    assert table.positions == positions
