"""`python -m tests.simulation [--engine kraft] [--seeds N] [--first SEED]`: run seeds, and end with 1 at a violation.

`python -m tests.simulation --scale` measures one broker in clusters of 100 brokers with up to 200,000 partitions.

`python -m tests.simulation --seed SEED --show` runs one, and shows its events and log lines.
"""

from __future__ import annotations

import subprocess
import sys
import time

import click

from tests.simulation import runs, scale
from tests.simulation.setup import ENGINES, ZOOKEEPER


@click.command(help=__doc__)
@click.option("--seeds", default=100, show_default=True, help="number of runs")
@click.option("--first", default=1, show_default=True, help="seed of the first run; each run adds 1")
@click.option("--engine", type=click.Choice(ENGINES), default=ZOOKEEPER, show_default=True, help="keeps the metadata")
@click.option("--scale", "is_scale", is_flag=True, help="print the figures of docs/scale.md")
@click.option("--partitions", default=200_000, show_default=True, help="of the largest cluster of --scale")
@click.option("--seed", type=int, help="run this seed alone")
@click.option("--show", is_flag=True, help="show all events and log lines of the seed")
def main(seeds: int, first: int, engine: str, is_scale: bool, partitions: int, seed: int | None, show: bool) -> None:
    if is_scale:
        for count in (*(some for some in scale.SIZES if some < partitions), partitions):
            click.echo(subprocess.check_output([sys.executable, "-m", scale.__name__, str(count)], text=True), nl=False)
        return
    fixed = {"engine": engine}
    if seed is not None:
        found = runs.run_many([seed], fixed, (lambda line: click.echo(line, nl=False)) if show else None)
        click.echo(f"seed {seed}: {found.steps} events, trace {found.trace}")
        return
    started = time.process_time()
    summary = runs.run_many(range(first, first + seeds), fixed)
    seconds = time.process_time() - started
    click.echo(", ".join(f"{name} {count}" for name, count in sorted(summary.faults.items())))
    click.echo(
        f"{seeds} runs from seed {first}: {summary.steps} events, {summary.committed} records committed, "
        f"{summary.acknowledged} acknowledged, {summary.read} read, {summary.offsets} offsets committed, "
        f"{summary.copied} copied, {summary.delivered} delivered to share groups, {summary.letters} dead letters, "
        f"{summary.reassignments} reassignments, "
        f"{summary.deletions} deletions, {summary.changes} changes of settings and ACLs, no violation; "
        f"{seconds:.1f} s of processor time"
    )


if __name__ == "__main__":
    main()
