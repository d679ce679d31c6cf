"""Choices that follow from a run's seed."""

from __future__ import annotations

import pytest

from tests.support import budget
from tests.support.budget import Budget

PLACES = range(10, 90, 2)


@pytest.fixture
def usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile `test`."""
    monkeypatch.setattr(budget, "examples", lambda usual, quick: usual // 4)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile `quick`."""
    monkeypatch.setattr(budget, "examples", lambda usual, quick: quick)


def test_the_same_seed_chooses_the_same_and_another_one_does_not() -> None:
    chosen = [Budget(False, seed).some(range(1000), "name") for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert Budget(False, 1).seed_of("name") == Budget(True, 1).seed_of("name") != Budget(False, 1).seed_of("other")


@pytest.mark.usefixtures("usual")
def test_some_places_are_chosen_unless_the_run_is_thorough() -> None:
    chosen = Budget(False, 3).some(PLACES, "name")
    assert (chosen[0], chosen[-1], len(chosen)) == (10, 88, 2 + 38 // 4)
    assert sorted(set(chosen)) == chosen
    assert Budget(True, 3).some(PLACES, "name") == list(PLACES)
    assert [Budget(False, 3).some(range(size), "name") for size in range(4)] == [[], [0], [0, 1], [0, 2]]


@pytest.mark.usefixtures("usual")
def test_all_places() -> None:
    assert Budget(False, 3).all_or_some(PLACES, "name") == list(PLACES)


@pytest.mark.usefixtures("quick")
def test_fewer_places_in_quick_runs() -> None:
    assert len(Budget(False, 3).some(PLACES, "name")) == 2 + 38 * 5 // 100
    chosen = Budget(False, 3).all_or_some(PLACES, "name")
    assert (chosen[0], chosen[-1], len(chosen)) == (10, 88, 2 + 38 // 5)
    for thorough in (Budget(True, 3).some, Budget(True, 3).all_or_some):
        assert thorough(PLACES, "name") == list(PLACES)


def test_sizes() -> None:
    assert (Budget(False, 1).of("usual", "all"), Budget(True, 1).of("usual", "all")) == ("usual", "all")
