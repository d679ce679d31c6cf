"""A wait ends when its condition is true, or with an error that shows the state."""

from __future__ import annotations

import pytest

from tests.support.waiting import wait_until


def test_a_wait_ends_when_the_condition_is_true() -> None:
    answers = iter([False, False, True])
    wait_until(lambda: next(answers), 10)
    assert next(answers, None) is None


def test_a_step_is_made_between_two_looks() -> None:
    steps: list[int] = []
    wait_until(lambda: len(steps) == 3, 10, meanwhile=lambda: steps.append(1))
    assert steps == [1, 1, 1]


def test_a_wait_that_is_too_long_shows_the_state() -> None:
    with pytest.raises(TimeoutError, match=r"not true within 0 s: \[1, 2\]"):
        wait_until(lambda: False, 0, lambda: [1, 2])
