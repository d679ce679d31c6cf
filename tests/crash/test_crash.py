"""Crashes, with all clients at work: nothing is lost, moved, repeated or made up.

The long run is `python -m tests.crash`; the README explains it.
"""

from __future__ import annotations

from pathlib import Path

from tests.crash.__main__ import all_workloads
from tests.crash.run import Run
from tests.support.budget import Budget

USUAL = (10, 8.0)  # kills, seconds
THOROUGH = (150, 180.0)
FEWEST = 8  # however slow the machine is


def test_many_crashes_lose_nothing(tmp_path: Path, budget: Budget) -> None:
    outcome = Run(tmp_path, all_workloads(), budget.seed_of("crashes")).go(*budget.of(USUAL, THOROUGH), FEWEST)
    print(outcome)
    assert outcome.violations == []
    assert outcome.number("kills") >= FEWEST
    assert outcome.number("records acknowledged") > 1000
    assert outcome.number("commits acknowledged") > 10
    assert outcome.number("logs checked at starts") > FEWEST


class Sabotage(Run):
    """A run whose broker loses data: of all logs of one topic the last third is gone after a crash."""

    def _bury(self) -> None:
        super()._bury()
        for directory in (self._directory / "broker" / "data").glob("rolling_*"):
            path = max(directory.glob("*.kafka"))
            data = path.read_bytes()
            path.write_bytes(data[: len(data) * 2 // 3])


def test_a_loss_is_seen(tmp_path: Path) -> None:
    outcome = Sabotage(tmp_path, all_workloads(), seed=1).go(kills=3, seconds=20)
    print(*outcome.violations, sep="\n")
    assert "lost" in {violation.kind for violation in outcome.violations}
