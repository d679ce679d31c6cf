"""A broker is killed while it compacts: of every key the last record stays, at its offset, and deleted keys vanish.

The long run is `python -m tests.crash --workload compaction`.
"""

from __future__ import annotations

from pathlib import Path

from tests.crash.__main__ import compaction_run
from tests.support.budget import Budget

USUAL = (6, 8.0)  # kills, seconds
THOROUGH = (60, 90.0)
FEWEST = 2  # on a machine that is slow or busy
EXCEEDED = {"keyed records written": 2000}


def test_the_last_record_of_each_key_stays(tmp_path: Path, budget: Budget) -> None:
    run = compaction_run(tmp_path, budget.seed_of("compaction"))
    outcome = run.go(*budget.of(USUAL, THOROUGH), FEWEST, EXCEEDED)
    print(outcome)
    assert outcome.violations == []
    assert outcome.number("kills") >= FEWEST
    for name, value in EXCEEDED.items():
        assert outcome.number(name) > value
    assert outcome.number("keyed records left in the end") < outcome.number("keyed records written") / 4
