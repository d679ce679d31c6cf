"""The limit of bytes per second, on a clock of the test's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.mirror.rate_limit import RateLimit


def test_without_a_limit_nothing_waits() -> None:
    limit = RateLimit(0)
    limit.take(10**12, 0.0)
    assert limit.wait(0.0) == 0


def test_one_second_is_let_through_at_once() -> None:
    limit = RateLimit(1000)
    assert limit.wait(5.0) == 0
    limit.take(1000, 5.0)
    assert limit.wait(5.0) == pytest.approx(0.001)
    assert limit.wait(5.5) == 0


def test_excess_is_waited_for() -> None:
    limit = RateLimit(1000)
    limit.wait(0.0)
    limit.take(4000, 0.0)
    assert limit.wait(0.0) == pytest.approx(3.0, abs=0.01)
    assert limit.wait(2.0) == pytest.approx(1.0, abs=0.01)
    assert limit.wait(3.1) == 0


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=50))
def test_rate_is_kept_over_time(sizes: list[int]) -> None:
    limit = RateLimit(1000)
    now = 100.0
    for size in sizes:
        now += limit.wait(now)
        limit.take(size, now)
    assert sum(sizes[:-1]) <= 1000 * (now - 100.0 + 1.0) + 1
