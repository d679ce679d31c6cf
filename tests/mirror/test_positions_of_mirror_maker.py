"""Positions as MirrorMaker 3.9.2 wrote them, for two partitions of `orders`."""

import pytest

from pylogbroker.mirror.positions import Position, position_key, position_value
from pylogbroker.partition_hash import partition_of_key

POSITIONS_BY_PARTITION = {
    ("orders", 0): 3,
    ("orders", 1): 11,
    ("heartbeats", 0): 23,
}


@pytest.mark.parametrize(("where", "partition"), POSITIONS_BY_PARTITION.items())
def test_positions_lie_where_mirror_maker_put_them(where: tuple[str, int], partition: int) -> None:
    assert partition_of_key(position_key("A", *where), 25) == partition


def test_bytes_of_a_position_are_those_of_mirror_maker() -> None:
    assert position_key("A", "orders", 0) == b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]'
    assert position_value(Position(150)) == b'{"offset":149}'
