"""A broker is killed while it archives a topic as Parquet, and deletes it: each record is in the archive or the log.

The long run is `python -m tests.crash --workload archiving`.
"""

from __future__ import annotations

from pathlib import Path

from tests.crash.__main__ import archiving_run
from tests.support.budget import Budget

USUAL = (4, 10.0)  # kills, seconds
THOROUGH = (40, 300.0)
FEWEST = 2  # on a machine that is slow or busy
EXCEEDED = {"records in the archive": 500, "dead letters in the archive": 50, "files of records": 3}


def test_each_record_is_in_the_archive_or_the_log_once(tmp_path: Path, budget: Budget) -> None:
    run = archiving_run(tmp_path, budget.seed_of("archiving"))
    outcome = run.go(*budget.of(USUAL, THOROUGH), FEWEST, EXCEEDED)
    print(outcome)
    assert outcome.violations == []
    assert outcome.number("kills") >= FEWEST
