"""Bounds on connections, together and per address."""

from __future__ import annotations

from pylogbroker.net.limits import ConnectionBound, MemoryBound


class Connection:
    def __init__(self, bound: MemoryBound) -> None:
        self.bound = bound
        self.closed: list[str] = []

    def close_because(self, reason: str) -> None:
        self.closed.append(reason)


def test_the_stalest_holders_go_until_the_rest_fits() -> None:
    bound = MemoryBound(100)
    first, second, third = (Connection(bound) for _ in range(3))
    bound.holds(first, 60)
    bound.holds(second, 30)
    bound.holds(first, 65)  # progress: now the second is the stalest
    bound.holds(third, 90)
    assert second.closed
    assert first.closed
    assert not third.closed
    assert bound.total == 90
    assert "queued.max.request.bytes=100" in second.closed[0]


def test_one_that_holds_more_than_all_may_is_closed_itself() -> None:
    bound = MemoryBound(100)
    only = Connection(bound)
    bound.holds(only, 101)
    assert only.closed
    assert bound.total == 0


def test_what_is_let_go_makes_room() -> None:
    bound = MemoryBound(100)
    first, second = Connection(bound), Connection(bound)
    bound.holds(first, 90)
    bound.holds(first, 0)
    bound.holds(second, 90)
    assert not first.closed
    assert not second.closed


def test_connections_are_counted_per_host_and_in_all() -> None:
    bound = ConnectionBound(most=4, most_per_host=2, overrides={"10.0.0.9": 1})
    assert bound.admit("10.0.0.1") is None
    assert bound.admit("10.0.0.1") is None
    assert "max.connections.per.ip" in (bound.admit("10.0.0.1") or "")
    assert bound.admit("10.0.0.9") is None
    assert "max.connections.per.ip" in (bound.admit("10.0.0.9") or "")
    assert bound.admit("10.0.0.2") is None
    assert "max.connections=4" in (bound.admit("10.0.0.3") or "")
    bound.leave("10.0.0.1")
    assert bound.admit("10.0.0.3") is None
