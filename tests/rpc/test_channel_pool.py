"""Pool of channels to brokers."""

from __future__ import annotations

import attrs
import pytest

from pylogbroker.rpc.channel_pool import ChannelPool
from pylogbroker.rpc.errors import NotConnected


@attrs.define(eq=False)
class Channel:
    broker_id: int
    is_closed: bool = False

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


class Opener:
    def __init__(self) -> None:
        self.opened: list[Channel] = []
        self.dead: set[int] = set()

    def open(self, broker_id: int) -> Channel:
        if broker_id in self.dead:
            raise NotConnected(f"broker {broker_id} is not registered")
        self.opened.append(Channel(broker_id))
        return self.opened[-1]


def test_each_broker_has_one_channel() -> None:
    opener = Opener()
    pool = ChannelPool(opener.open)
    first, second = pool.channel(1), pool.channel(2)
    assert (pool.channel(1), pool.channel(2)) == (first, second)
    assert [each.broker_id for each in opener.opened] == [1, 2]


def test_a_disconnected_broker_gets_another_channel() -> None:
    opener = Opener()
    pool = ChannelPool(opener.open)
    first, other = pool.channel(1), pool.channel(2)
    pool.disconnect(1)
    pool.disconnect(1)
    pool.disconnect(3)
    assert (first.is_closed, other.is_closed) == (True, False)
    assert pool.channel(1) is not first


def test_a_broker_that_is_not_alive_leaves_nothing() -> None:
    opener = Opener()
    opener.dead.add(1)
    pool = ChannelPool(opener.open)
    with pytest.raises(NotConnected):
        pool.channel(1)
    opener.dead.clear()
    assert pool.channel(1).broker_id == 1


def test_close_closes_all_channels_once() -> None:
    opener = Opener()
    pool = ChannelPool(opener.open)
    channels = [pool.channel(1), pool.channel(2)]
    pool.close()
    pool.close()
    assert all(each.is_closed for each in channels)
    assert pool.channel(1) not in channels
