"""`python -m tests.replication [--steps N] [--seed N] [--show]`: run the model, and end with 1 at a violation."""

from __future__ import annotations

import time

import click

from tests.replication import runs
from tests.replication.runs import RUN_STEPS


@click.command(help=__doc__)
@click.option("--steps", default=100_000, show_default=True, help=f"steps in all; a run has {RUN_STEPS} at most")
@click.option("--seed", default=1, show_default=True, help="seed of the first run; each run adds 1")
@click.option("--show", is_flag=True, help="run one seed, and show its last steps")
def main(steps: int, seed: int, show: bool) -> None:
    if show:
        runs.show(seed, min(steps, RUN_STEPS))
        return
    started = time.perf_counter()
    acknowledgements = committed = count = 0
    for done in range(0, steps, RUN_STEPS):
        invariants = runs.check(seed + count, min(RUN_STEPS, steps - done)).invariants
        count += 1
        acknowledgements += invariants.acknowledgements
        committed += len(invariants.committed)
    seconds = time.perf_counter() - started
    print(
        f"{steps} steps in {count} runs from seed {seed}: {committed} records committed, "
        f"{acknowledgements} produces acknowledged, no violation; {seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
