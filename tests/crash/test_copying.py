"""Copiers, and their broker, are killed: what readers of committed records see is each record once, in order.

The long run is `python -m tests.crash --workload copiers`.
"""

from __future__ import annotations

from pathlib import Path

from tests.crash.__main__ import copiers_run
from tests.crash.kill_moments import KillContext
from tests.crash.run import Run
from tests.crash.workloads.copier_processes import CopierProgram, java_4, librdkafka
from tests.crash.workloads.copying import Copying
from tests.peers import available
from tests.support.budget import Budget
from tests.support.waiting import wait_until

RECORDS = 3_000  # of each crew
USUAL = (6, 10.0)  # kills, seconds until nothing is killed any more
THOROUGH = (40, 60.0)
FEWEST = 2  # on a machine that is slow or busy
WAIT_SECONDS_MAX = 120.0

LIBRDKAFKA = CopierProgram("librdkafka", (librdkafka, librdkafka), life_seconds=0.8)
JAVA = CopierProgram("java", (java_4, java_4), life_seconds=2.0)


def test_every_record_is_copied_once(tmp_path: Path, budget: Budget) -> None:
    """One crew is at work, by chance; with `--thorough` all are, and copy more."""
    crews = [LIBRDKAFKA, JAVA] if available() else [LIBRDKAFKA]
    crews = budget.of([budget.chance("crew").choice(crews)], crews)
    records = budget.of(RECORDS, 10 * RECORDS)
    run = copiers_run(tmp_path, Copying(records, crews, pause_ms=10), budget.seed_of("copiers"))
    outcome = run.go(*budget.of(USUAL, THOROUGH), FEWEST)
    print(outcome)
    assert outcome.violations == []
    assert outcome.number("kills") >= FEWEST
    assert outcome.number("copiers killed") >= FEWEST
    for crew in crews:
        assert outcome.number(f"{crew.name}: records copied") == records
    assert sum(outcome.number(f"{crew.name}: records aborted") for crew in crews) > 0


def test_copiers_without_transactions_are_found_out(tmp_path: Path) -> None:
    """Copiers that die between their records and their offsets copy the records again."""
    hasty = CopierProgram("hasty", (librdkafka, librdkafka), life_seconds=0.1, ends=("sent",))
    copying = Copying(4_000, [hasty], pause_ms=30, transactions=False)

    def killed() -> float:
        return copying.figures().get("  sent", 0)

    def after_copiers(scene: KillContext) -> None:
        wanted = killed() + len(hasty.commands) + 1  # one of them has died twice
        wait_until(lambda: killed() >= wanted, WAIT_SECONDS_MAX)
        scene.victim.strike()

    outcome = Run(tmp_path, [copying], seed=3, moments={"after copiers": after_copiers}).go(kills=5, seconds=60)
    print(*outcome.violations, sep="\n")
    assert "duplicate" in {violation.kind for violation in outcome.violations}
