"""Crashes, with all clients at work: nothing is lost, moved, repeated or made up.

The long run is `python -m tests.crash`; the README explains it.
"""

from __future__ import annotations

from pathlib import Path

from tests.crash.__main__ import all_workloads
from tests.crash.content import end_of, whole_entries
from tests.crash.history import Partition
from tests.crash.kill_moments import KillContext
from tests.crash.run import Run
from tests.crash.workloads.producing import ROLLING
from tests.support.budget import Budget
from tests.support.waiting import wait_until

USUAL = (10, 8.0)  # kills, seconds
THOROUGH = (150, 180.0)
FEWEST = 8  # however slow the machine is
EXCEEDED = {"records acknowledged": 1000, "commits acknowledged": 10, "logs checked at starts": FEWEST}


def test_many_crashes_lose_nothing(tmp_path: Path, budget: Budget) -> None:
    run = Run(tmp_path, all_workloads(), budget.seed_of("crashes"))
    outcome = run.go(*budget.of(USUAL, THOROUGH), FEWEST, EXCEEDED)
    print(outcome)
    assert outcome.violations == []
    assert outcome.number("kills") >= FEWEST
    for name, value in EXCEEDED.items():
        assert outcome.number(name) > value


class Sabotage(Run):
    """A run whose broker loses data in a crash: each log of one topic from its last acknowledged record on."""

    def __init__(self, directory: Path) -> None:
        moments = {"after an acknowledgement": self._after_an_acknowledgement}
        super().__init__(directory, all_workloads(), seed=1, moments=moments)

    def _after_an_acknowledgement(self, scene: KillContext) -> None:
        wait_until(lambda: any(self._last_acknowledged(each) >= 0 for each in ROLLING.partition_keys))
        scene.victim.strike()

    def _last_acknowledged(self, partition: Partition) -> int:
        """Return the last offset in a partition that was acknowledged; -1 if there is none."""
        found = [max(sent.offsets, default=-1) for (_, each), sent in self._history.sent.items() if each == partition]
        return max(found, default=-1)

    def _bury(self) -> None:
        super()._bury()
        for topic, number in ROLLING.partition_keys:
            lost = self._last_acknowledged((topic, number))
            for path in (self._directory / "broker" / "data" / f"{topic}_{number}").glob("*.kafka"):
                kept = [entry for entry in whole_entries(path.read_bytes()) if lost < 0 or end_of(entry) <= lost]
                path.write_bytes(b"".join(kept))


def test_a_loss_is_seen(tmp_path: Path) -> None:
    outcome = Sabotage(tmp_path).go(kills=1, seconds=0, fewest=1)
    print(*outcome.violations, sep="\n")
    assert "lost" in {violation.kind for violation in outcome.violations}
