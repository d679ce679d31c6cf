"""Simulation of whole brokers: no invariant breaks, and a seed repeats a run exactly."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tests.replication.invariants import Violation
from tests.simulation import runs
from tests.simulation.__main__ import main
from tests.simulation.invariants import Invariants
from tests.simulation.setup import ENGINES, KRAFT
from tests.simulation.world import Process
from tests.support.budget import Budget
from tests.support.examples import examples

PARTS = 4  # so that the workers of a run share them


@pytest.mark.parametrize("part", range(PARTS))
def test_no_invariant_breaks(budget: Budget, part: int) -> None:
    """Run the first 40 seeds, if thorough 4,000 others each time; `python -m tests.simulation` runs more."""
    first, count = budget.of(1, budget.seed_of("simulation")), budget.of(examples(40, quick=2), 4_000 // PARTS)
    summary = runs.run_many(range(first + part * count, first + (part + 1) * count))
    assert summary.acknowledged > 5 * count
    assert summary.read > 10 * count
    assert summary.changes > 0 or count < 10  # a third of the runs has clients that change settings


@pytest.mark.parametrize("part", range(PARTS))
def test_no_invariant_breaks_with_kraft(budget: Budget, part: int) -> None:
    """Run the first 12 seeds with a model of KRaft's controllers."""
    first, count = budget.of(1, budget.seed_of("simulation")), budget.of(examples(3, quick=1), 2_000 // PARTS)
    summary = runs.run_many(range(first + part * count, first + (part + 1) * count), {"engine": KRAFT})
    assert summary.acknowledged > 5 * count
    assert summary.read > 10 * count


@pytest.mark.parametrize("engine", ENGINES)
def test_a_seed_repeats_a_run_exactly(engine: str) -> None:
    fixed = {"engine": engine}
    traces = {runs.run_many([2], fixed).trace for _ in range(2)}
    assert len(traces) == 1
    assert runs.run_many([4], fixed).trace not in traces


def test_a_violation_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def violate(invariants: Invariants, process: Process | None) -> None:
        raise Violation("planted")

    monkeypatch.setattr(Invariants, "check", violate)
    with pytest.raises(Violation, match="planted") as caught:
        runs.run_many([3])
    assert caught.value.__notes__ == ["after 0.000 s; repeat: python -m tests.simulation --seed 3 --show"]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--seeds", "2"], "no violation"),
        (["--seeds", "1", "--engine", "kraft"], "no violation"),
        (["--seed", "3", "--show"], "logs: "),
        (["--scale", "--engine", "kraft", "--cluster", "6", "300"], "KRaft, 6 brokers, 300 partitions, restart of 6"),
        (["--scale", "--engine", "zookeeper", "--cluster", "6", "300"], "300 partitions, rack of 2 lost"),
        (["--scale", "--snapshot-mb", "1"], "snapshot 1.0 MB"),
    ],
)
def test_the_command(arguments: list[str], shown: str) -> None:
    outcome = CliRunner().invoke(main, arguments)
    assert (outcome.exit_code, shown in outcome.output) == (0, True), outcome.output
