"""`python -m benchmarks.broker`: the raw workloads on this project's broker, compared with another one if named.

    python -m benchmarks.broker                             # this broker alone
    python -m benchmarks.broker --against 127.0.0.1:9092    # and any broker that speaks Kafka's protocol
    python -m benchmarks.broker --kafka                     # and Apache Kafka, downloaded and started for the run

The brokers alternate, workload by workload; each figure is the median of its rounds. Warm-up rounds come first, mainly
for a JVM.
"""

import gc
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import attrs
import click
from rich.console import Console
from rich.table import Table

from benchmarks.brokers import Running, kafka, own
from benchmarks.machine import description, touch_memory
from benchmarks.session import Session
from benchmarks.workloads import WORKLOADS, Workload

NAMES = [workload.name for workload in WORKLOADS]


@attrs.define
class Results:
    """Every measured figure, by workload, figure and broker."""

    figures: dict[tuple[str, str, str], list[float]] = attrs.field(factory=lambda: defaultdict(list))

    def add(self, workload: Workload, broker: Running, figures: dict[str, float]) -> None:
        for unit, figure in figures.items():
            self.figures[workload.name, unit, broker.name].append(figure)

    def median(self, workload: Workload, unit: str, broker: Running) -> float:
        return statistics.median(self.figures[workload.name, unit, broker.name])


@click.command()
@click.option("--against", metavar="HOST:PORT", help="Also measure the broker at this address.")
@click.option("--kafka", "with_kafka", is_flag=True, help="Start Apache Kafka and measure it as well.")
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Run this workload only; may be repeated.")
@click.option("--rounds", default=5, show_default=True, help="Measurements of each workload.")
@click.option("--warm-up", default=3, show_default=True, help="Runs of each workload before its measurements.")
@click.option("--scale", default=1.0, show_default=True, help="Length of each measurement, relative to the default.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--alone", is_flag=True, help="Don't measure this project's broker.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("--verbose", is_flag=True, help="Print every measurement.")
def main(
    against: str | None,
    with_kafka: bool,
    only: Sequence[str],
    rounds: int,
    warm_up: int,
    scale: float,
    directory: Path | None,
    alone: bool,
    markdown: bool,
    verbose: bool,
) -> None:
    """Measure this broker, and compare it with another one."""
    workloads = [workload for workload in WORKLOADS if workload.name in (only or NAMES)]
    console = Console()
    touch_memory()
    with ExitStack() as stack:
        brokers = [] if alone else [stack.enter_context(own(directory))]
        if against:
            host, _, port = against.rpartition(":")
            brokers.append(Running(against, Session(host, int(port))))
        if with_kafka:
            brokers.append(stack.enter_context(kafka(directory)))
        results = measure(workloads, brokers, warm_up, rounds, scale, console if verbose else None)
    table = [row(workload, unit, brokers, results) for workload in workloads for unit in workload.wanted]
    show(console, heading(brokers), table, markdown)


def measure(
    workloads: Sequence[Workload],
    brokers: Sequence[Running],
    warm_up: int,
    rounds: int,
    scale: float,
    console: Console | None,
) -> Results:
    """Run every workload on every broker in turn: first the warm-up, then the measurements."""
    results = Results()
    gc.disable()
    for number in range(-warm_up, rounds):
        for workload in workloads:
            for broker in brokers if number % 2 else reversed(brokers):
                figures = measure_one(workload, broker, scale, console)
                if number >= 0:
                    results.add(workload, broker, figures)
        gc.collect()
    return results


def measure_one(workload: Workload, broker: Running, scale: float, console: Console | None) -> dict[str, float]:
    begin, own_begin = time.perf_counter(), time.process_time()
    broker_begin = broker.cpu_seconds() if broker.pid else 0.0
    figures = dict(workload.measure(broker.session, scale))
    if console:
        elapsed, generator = time.perf_counter() - begin, time.process_time() - own_begin
        used = broker.cpu_seconds() - broker_begin if broker.pid else 0.0
        text = ", ".join(f"{figure:.4g} {unit}" for unit, figure in figures.items())
        usage = f"{elapsed:.1f} s, processor time of generator {generator:.2f} s, of broker {used:.2f} s"
        console.print(f"{broker.name} {workload.name}: {text} ({usage}; load {os.getloadavg()[0]:.1f})")
    return figures


def heading(brokers: Sequence[Running]) -> list[str]:
    return ["work", "unit", *(broker.name for broker in brokers), *(["ratio", "wanted"] if len(brokers) > 1 else [])]


def row(workload: Workload, unit: str, brokers: Sequence[Running], results: Results) -> list[str]:
    """Return one row of the table: the medians, and for two brokers how many times better the first is."""
    medians = [results.median(workload, unit, broker) for broker in brokers]
    cells = [workload.title, unit, *(f"{median:,.0f}" if median >= 100 else f"{median:.3g}" for median in medians)]
    if len(brokers) > 1:
        cells += [f"{workload.ratio(medians[0], medians[1]):.2f} x", f"{workload.wanted[unit]} x"]
    return cells


def show(console: Console, head: Sequence[str], rows: Sequence[Sequence[str]], markdown: bool) -> None:
    """Print the table and the description of the machine."""
    if markdown:
        for cells in (head, ["---", "---", *(["---:"] * (len(head) - 2))], *rows):
            print(f"| {' | '.join(cells)} |")
        print(f"\n{description()}; {time.strftime('%Y-%m-%d')}.")
        return
    table = Table(*head, caption=f"{description()}; {time.strftime('%Y-%m-%d')}")
    for column in table.columns[2:]:
        column.justify = "right"
    for cells in rows:
        table.add_row(*cells)
    console.print(table)


if __name__ == "__main__":
    main()
