"""`python -m tests.simulation [--engine kraft] [--seeds N] [--first SEED]`: run seeds, and end with 1 at a violation.

`python -m tests.simulation --scale` measures one broker in clusters of 3 to 300 brokers, with up to 400,000 partitions.

`python -m tests.simulation --seed SEED --show` runs one, and shows its events and log lines.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from subprocess import PIPE
from typing import Final

import click

from tests.simulation import runs, scale, scale_zookeeper
from tests.simulation.setup import ENGINES, KRAFT, ZOOKEEPER

_SCALE: Final = {KRAFT: scale, ZOOKEEPER: scale_zookeeper}


@click.command(help=__doc__)
@click.option("--seeds", default=100, show_default=True, help="number of runs")
@click.option("--first", default=1, show_default=True, help="seed of the first run; each run adds 1")
@click.option("--engine", type=click.Choice(ENGINES), help="keeps the metadata; by default zookeeper, both in --scale")
@click.option("--scale", "is_scale", is_flag=True, help="print the figures of docs/scale.md")
@click.option("--cluster", type=scale.COUNTS, help="with --scale: brokers and partitions of one cluster alone")
@click.option("--snapshot-mb", type=scale.MEGABYTES, help="with --scale: one start alone, with a snapshot of this size")
@click.option("--seed", type=int, help="run this seed alone")
@click.option("--show", is_flag=True, help="show all events and log lines of the seed")
def main(
    seeds: int,
    first: int,
    engine: str | None,
    is_scale: bool,
    cluster: tuple[int, int] | None,
    snapshot_mb: int | None,
    seed: int | None,
    show: bool,
) -> None:
    if not is_scale and (cluster or snapshot_mb):
        raise click.UsageError("--cluster and --snapshot-mb need --scale")
    if is_scale:
        _measure([engine] if engine else [KRAFT, ZOOKEEPER], cluster, snapshot_mb)
        return
    fixed = {"engine": engine or ZOOKEEPER}
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


def _measure(engines: Sequence[str], cluster: tuple[int, int] | None, snapshot_mb: int | None) -> None:
    """Measure each cluster in a process of its own: memory that was freed may be used again."""
    if snapshot_mb is not None:
        measured = [[scale.__name__, "--snapshot-mb", str(snapshot_mb)]]
    else:
        measured = [
            [module.__name__, "--cluster", *map(str, counts)]
            for module in map(_SCALE.__getitem__, engines)
            for counts in ([cluster] if cluster else module.CLUSTERS)
        ]
    for arguments in measured:
        with subprocess.Popen([sys.executable, "-m", *arguments], stdout=PIPE, text=True) as process:
            for line in process.stdout or ():
                click.echo(line, nl=False)
        if process.returncode:
            raise click.ClickException(f"the measurement {' '.join(arguments)} failed")


if __name__ == "__main__":
    main()
