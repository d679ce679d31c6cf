"""Kills of the broker at calls of its remote storage: nothing is lost, and deleted topics leave no objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.__main__ import tiering_run
from tests.support.budget import Budget

USUAL = (4, 2.0)  # kills, seconds
THOROUGH = (100, 300.0)
FEWEST = 4


@pytest.mark.process
def test_kills_in_copies_and_deletions_lose_nothing(tmp_path: Path, budget: Budget) -> None:
    run = tiering_run(tmp_path, budget.seed_of("archives"))
    outcome = run.go(*budget.of(USUAL, THOROUGH), FEWEST, {"trims": 0, "records acknowledged": 500})
    print(outcome)
    assert outcome.violations == []
    assert outcome.number("trims") > 0
