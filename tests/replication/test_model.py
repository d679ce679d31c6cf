"""Model of a cluster under faults: no invariant breaks, and each historical bug breaks one."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tests.replication import runs, steps
from tests.replication.__main__ import main
from tests.replication.invariants import Invariants, Violation
from tests.replication.mutants import MUTANTS, Mutant
from tests.support.budget import Budget
from tests.support.examples import examples


def test_no_invariant_breaks(budget: Budget) -> None:
    """Run other seeds each time; `python -m tests.replication` runs more."""
    first = budget.seed_of("replication")
    clusters = [runs.check(seed) for seed in range(first, first + budget.of(examples(400), 4_000))]
    assert sum(cluster.invariants.acknowledgements for cluster in clusters) > len(clusters)
    assert sum(len(cluster.invariants.committed) for cluster in clusters) > 10 * len(clusters)


def test_a_seed_repeats_a_run_exactly() -> None:
    described = [runs.check(7, 500).describe() for _ in range(2)]
    assert described[0] == described[1]


def test_a_violation_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def violate(invariants: Invariants) -> None:
        raise Violation

    monkeypatch.setattr(Invariants, "check", violate)
    with pytest.raises(Violation) as caught:
        runs.check(3, 10)
    assert caught.value.__notes__ == ["step 1; repeat: python -m tests.replication --seed 3 --steps 10 --show"]


@pytest.mark.parametrize(("arguments", "shown"), [([], "no violation"), (["--show"], "1000 ")])
def test_the_command(arguments: list[str], shown: str) -> None:
    outcome = CliRunner().invoke(main, ["--steps", "1500", "--seed", "3", *arguments])
    assert (outcome.exit_code, shown in outcome.output) == (0, True)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_is_found(mutant: Mutant) -> None:
    assert runs_until_found(mutant) <= mutant.runs_max


def runs_until_found(mutant: Mutant) -> int:
    for count in range(mutant.runs_max):
        cluster = runs.new_cluster(mutant.first_seed + count, mutant.setup, *mutant.classes)
        try:
            steps.run(cluster, runs.RUN_STEPS)
        except AssertionError:
            return count + 1
    return mutant.runs_max + 1
