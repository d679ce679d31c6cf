"""Throttle of replication: the rate on average, bursts, and changes of the rate."""

from __future__ import annotations

import pytest

from pylogbroker.replication.throttle import UNLIMITED, ReplicationThrottle

RATE = 1_000_000


def throttle(rate: int = RATE) -> ReplicationThrottle:
    made = ReplicationThrottle()
    made.set_rate(rate, 0)
    return made


@pytest.mark.parametrize("size", [1_000, 100_000, 1_048_576, 5_000_000])
@pytest.mark.parametrize("step_ms", [1, 37, 500])
def test_the_average_is_the_rate(size: int, step_ms: int) -> None:
    """Fetches at any distance, of batches that pass whole."""
    limit, passed = throttle(), 0
    for now_ms in range(0, 60_000, step_ms):
        while not limit.is_exceeded(now_ms):
            limit.record(size, now_ms)
            passed += size
    assert passed == pytest.approx(60 * RATE, abs=size + RATE * step_ms / 1000)


def test_an_idle_time_saves_a_second_at_most() -> None:
    limit, passed = throttle(), 0
    while not limit.is_exceeded(100_000):
        limit.record(1_000, 100_000)
        passed += 1_000
    assert passed == RATE


def test_the_wait_ends_when_bytes_may_pass() -> None:
    limit = throttle()
    limit.record(RATE // 2, 0)
    wait_ms = limit.wait_ms(0)
    assert wait_ms == 501
    assert limit.is_exceeded(wait_ms - 1)
    assert not limit.is_exceeded(wait_ms)
    assert limit.wait_ms(wait_ms) == 0


def test_without_a_rate_nothing_is_throttled() -> None:
    limit = ReplicationThrottle()
    limit.record(10**15, 0)
    assert not limit.is_exceeded(0)


def test_a_rate_of_nothing_lets_nothing_pass() -> None:
    assert throttle(0).wait_ms(10**9) == UNLIMITED


def test_a_new_rate_drops_saved_up_bytes() -> None:
    limit = throttle()
    limit.record(10 * RATE, 0)
    limit.set_rate(RATE, 1)
    assert limit.is_exceeded(1)
    limit.set_rate(2 * RATE, 1)
    assert not limit.is_exceeded(2)
