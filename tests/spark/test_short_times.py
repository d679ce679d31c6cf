"""Calls with a short time are repeated with more, until they fail or succeed as they must."""

from __future__ import annotations

import pytest

from pylogbroker.client.errors import NoBrokers, RequestTimedOut
from tests.spark.short_times import MILLISECONDS, error_of, in_time

NEEDED = MILLISECONDS[1]


def slow(milliseconds: int) -> int:
    """Stand in for a call that needs some time."""
    if milliseconds < NEEDED:
        raise RequestTimedOut("too late")
    return milliseconds


def test_a_result_may_need_more_time() -> None:
    assert in_time(slow) == NEEDED


def test_an_error_may_need_more_time() -> None:
    def fail(milliseconds: int) -> None:
        slow(milliseconds)
        raise NoBrokers("nobody is there")

    assert str(error_of(fail, NoBrokers, "nobody")) == "nobody is there"
    with pytest.raises(AssertionError, match="no NoBrokers with 'else'"):
        error_of(fail, NoBrokers, "else")
    with pytest.raises(AssertionError, match="no NoBrokers"):
        error_of(slow, NoBrokers)
