"""`python -m benchmarks.cluster`: three brokers with replicated topics, beside three of Apache Kafka if asked for.

    python -m benchmarks.cluster                # this project's brokers alone
    python -m benchmarks.cluster --kafka        # and Apache Kafka's, with the same ZooKeeper
    python -m benchmarks.cluster --kafka --engine kraft         # all on controllers of Apache Kafka 4.4

Topics have three replicas and two in-sync replicas at least; acks=all. The clusters alternate, workload by workload.
The failovers with many partitions come last, one cluster after the other: only the one that is measured runs.
"""

import gc
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import scratch
from benchmarks.cluster_workloads import WORKLOADS, ClusterWorkload, controller_failovers
from benchmarks.clusters import KINDS, MeasuredCluster, running, running_on_controller, zookeeper
from benchmarks.machine import touch_memory
from benchmarks.workloads import Figures

FAILOVER = "controller-killed"
#: Title, unit and wanted ratio of its rows.
FAILOVER_ROWS = (
    ("{:,} partitions: {} killed, to leaders for all", "s", 0.5),
    ("{:,} partitions: resident memory of all three brokers", "MB", 0.25),
)
#: Broker that is killed, by engine: KRaft's controller is none.
VICTIMS = {"zookeeper": "controller", "kraft": "broker"}
NAMES = [*(workload.name for workload in WORKLOADS), FAILOVER]


class Start(Protocol):
    """Starts a cluster of brokers of one kind."""

    def __call__(self, name: str, *, directory: Path) -> AbstractContextManager[MeasuredCluster]: ...


@attrs.define
class ClusterResults:
    """Measured figures, by title of the work, unit and cluster; printed as they come if there is a console."""

    console: Console | None = None
    figures: dict[tuple[str, str, str], list[float]] = attrs.field(factory=lambda: defaultdict(list))

    def add(self, title: str, cluster: MeasuredCluster, figures: Figures, usage: str = "") -> None:
        for unit, figure in figures.items():
            self.figures[title, unit, cluster.name].append(figure)
        if self.console:
            text = ", ".join(f"{figure:.4g} {unit}" for unit, figure in figures.items())
            self.console.print(f"{cluster.name}: {title}: {text}{usage}", highlight=False, soft_wrap=True)

    def row(self, title: str, unit: str, clusters: Sequence[str], wanted: float) -> list[str]:
        """Return one row of the table: the medians, and the ratio of the first to the second."""
        medians = [statistics.median(self.figures[title, unit, cluster]) for cluster in clusters]
        cells = [title, unit, *(f"{median:,.0f}" if median >= 100 else f"{median:.3g}" for median in medians)]
        if len(clusters) > 1:
            cells += [f"{medians[0] / medians[1]:.2f} x", f"{'≤' if wanted < 1 else '≥'} {wanted} x"]
        return cells


@click.command()
@click.option("--kafka", "with_kafka", is_flag=True, help="Start Apache Kafka's brokers and measure them as well.")
@click.option("--engine", type=click.Choice(list(VICTIMS)), default="zookeeper", show_default=True)
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Run this workload only; may be repeated.")
@click.option("--rounds", default=5, show_default=True, help="Measurements of each workload.")
@click.option("--warm-up", default=3, show_default=True, help="Runs of each producing workload before.")
@click.option("--scale", default=1.0, show_default=True, help="Length of each measurement, relative to the default.")
@click.option("--partitions", default=10_000, show_default=True, help=f"Partitions of {FAILOVER}.")
@click.option("--failovers", default=3, show_default=True, help=f"Measurements of {FAILOVER}.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--alone", is_flag=True, help="Don't measure this project's brokers.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("--verbose", is_flag=True, help="Print every measurement.")
def main(
    with_kafka: bool,
    engine: str,
    only: Sequence[str],
    rounds: int,
    warm_up: int,
    scale: float,
    partitions: int,
    failovers: int,
    directory: Path | None,
    alone: bool,
    markdown: bool,
    verbose: bool,
) -> None:
    """Measure a cluster of this project's brokers, and compare it with one of Apache Kafka's."""
    workloads = [workload for workload in WORKLOADS if workload.name in (only or NAMES)]
    own, kafka = KINDS
    names = [*([] if alone else [own]), *([kafka] if with_kafka else [])]
    console = Console()
    results = ClusterResults(console if verbose else None)
    touch_memory()
    victim = VICTIMS[engine]
    with ExitStack() as servers:
        parent = servers.enter_context(scratch(directory))
        start: Start = running_on_controller
        if engine == "zookeeper":
            address = servers.enter_context(zookeeper(parent / "zookeeper"))
            start = partial(running, zookeeper=address)
        if workloads:
            with ExitStack() as stack:
                clusters = [stack.enter_context(start(name, directory=parent / _slug(name))) for name in names]
                measure(workloads, clusters, warm_up, rounds, scale, results)
        if FAILOVER in (only or NAMES):
            for name in names:
                with start(name, directory=parent / f"{_slug(name)}-{FAILOVER}") as cluster:
                    for figures in controller_failovers(cluster, partitions, failovers):
                        for title, unit, _ in FAILOVER_ROWS:
                            results.add(title.format(partitions, victim), cluster, {unit: figures[unit]})
    rows = [results.row(each.title, unit, names, ratio) for each in workloads for unit, ratio in each.wanted.items()]
    if FAILOVER in (only or NAMES):
        rows += [
            results.row(title.format(partitions, victim), unit, names, ratio) for title, unit, ratio in FAILOVER_ROWS
        ]
    show(console, ["work", "unit", *names, *(["ratio", "wanted"] if len(names) > 1 else [])], rows, markdown)


def measure(
    workloads: Sequence[ClusterWorkload],
    clusters: Sequence[MeasuredCluster],
    warm_up: int,
    rounds: int,
    scale: float,
    results: ClusterResults,
) -> None:
    """Run every workload on every cluster in turn: first the warm-up, then the measurements."""
    gc.disable()
    for number in range(-warm_up, rounds):
        for workload in workloads:
            if number < 0 and not workload.warms_up:
                continue
            for cluster in clusters if number % 2 else reversed(clusters):
                begin, cpu_begin, own_begin = time.perf_counter(), cluster.cpu_seconds(), time.process_time()
                figures = workload.measure(cluster, number, scale)
                elapsed, generator = time.perf_counter() - begin, time.process_time() - own_begin
                used = cluster.cpu_seconds() - cpu_begin
                usage = f" ({elapsed:.1f} s, processor time of generator {generator:.2f} s, of brokers {used:.2f} s)"
                if number >= 0:
                    results.add(workload.title, cluster, figures, usage)
        gc.collect()


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")


if __name__ == "__main__":
    main()
