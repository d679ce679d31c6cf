"""Choices that follow from a run's seed."""

from __future__ import annotations

from tests.support.budget import Budget


def test_the_same_seed_chooses_the_same_and_another_one_does_not() -> None:
    chosen = [Budget(False, seed).some(range(1000), "name") for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert Budget(False, 1).seed_of("name") == Budget(True, 1).seed_of("name") != Budget(False, 1).seed_of("other")


def test_some_places_are_the_ends_and_a_quarter_and_when_thorough_all() -> None:
    chosen = Budget(False, 3).some(range(10, 90, 2), "name")
    assert (chosen[0], chosen[-1], len(chosen)) == (10, 88, 2 + 38 // 4)
    assert sorted(set(chosen)) == chosen
    assert Budget(True, 3).some(range(10, 90, 2), "name") == list(range(10, 90, 2))
    assert [Budget(False, 3).some(range(size), "name") for size in range(4)] == [[], [0], [0, 1], [0, 2]]


def test_sizes() -> None:
    assert (Budget(False, 1).of("usual", "all"), Budget(True, 1).of("usual", "all")) == ("usual", "all")
