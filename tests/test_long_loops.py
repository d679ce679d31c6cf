"""Coroutines that give way, without a driver that pauses them."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
from twisted.internet.defer import Deferred

from pylogbroker.long_loops import STEP_ITEMS, at_once, give_way, in_order, mapped, over


def steps(work: Awaitable[object]) -> int:
    """Return how often a coroutine gives way."""
    return sum(1 for _ in work.__await__())


async def double(numbers: range) -> list[int]:
    return [2 * number async for number in over(numbers)]


def test_a_loop_gives_way_after_each_item() -> None:
    assert at_once(double(range(3))) == [0, 2, 4]
    assert steps(double(range(3))) == 3


def test_cheap_items_share_a_step() -> None:
    many = range(2 * STEP_ITEMS + 1)
    assert at_once(mapped(str, many)) == [str(number) for number in many]
    assert steps(mapped(str, many)) == 3
    assert steps(mapped(str, ())) == 1, "many loops may be empty"


def test_many_items_are_sorted_in_parts() -> None:
    numbers = [number * 7919 % 10_007 for number in range(10_007)]
    assert steps(in_order(numbers)) == 11
    assert list(at_once(in_order(numbers))) == list(range(10_007))
    assert list(at_once(in_order(numbers, key=lambda number: -number))) == list(range(10_006, -1, -1))
    assert list(at_once(in_order([]))) == []


def test_twisted_runs_a_coroutine_without_pauses() -> None:
    assert Deferred.fromCoroutine(double(range(3))).result == [0, 2, 4]


def test_errors_reach_the_caller() -> None:
    async def fail() -> None:
        await give_way()
        raise KeyError("of the body")

    with pytest.raises(KeyError, match="of the body"):
        at_once(fail())
