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


def test_the_last_record_of_each_key_stays(tmp_path: Path, budget: Budget) -> None:
    outcome = compaction_run(tmp_path, budget.seed_of("compaction")).go(*budget.of(USUAL, THOROUGH), FEWEST)
    print(outcome)
    assert outcome.violations == []
    assert outcome.number("kills") >= FEWEST
    assert outcome.number("keyed records written") > 1000
    assert outcome.number("keyed records left in the end") < outcome.number("keyed records written") / 4
