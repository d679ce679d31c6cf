"""`python -m benchmarks.command`: how long the command `pylogbroker` takes, from the start of its process to the end.

    python -m benchmarks.command                    # on this broker
    python -m benchmarks.command --rounds 101       # more runs of each verb

Each run is a process of its own; the verbs alternate.  Figures are medians, by the clock and of the processor.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import PROJECT, Running, own, scratch
from benchmarks.errors import BenchmarkError

TOPICS = 10
WANTED = {"--help": 0.2, "topic list": 0.2}
VERBS = ("--help", "topic list --help", "topic list", "topic list --format json", "cluster health")
PYTHON = "python alone"
COMPLETION = "a completed topic"


@attrs.frozen
class Times:
    """Seconds of one run: by the clock, and of the processor."""

    clock: float
    processor: float


@click.command()
@click.option("--rounds", default=31, show_default=True, help="Number of runs of each verb.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(rounds: int, directory: Path | None, markdown: bool) -> None:
    """Measure the time that verbs of the command take."""
    found: dict[str, list[Times]] = {title: [] for title in (PYTHON, *VERBS, COMPLETION)}
    with ExitStack() as stack:
        modules = stack.enter_context(scratch(directory))
        broker = stack.enter_context(own(directory))
        for _ in range(TOPICS):
            stack.enter_context(broker.session.topic())
        for title in found:
            run(title, broker, modules)  # compiles modules
        for _ in range(rounds):
            for title, times in found.items():
                times.append(run(title, broker, modules))
    show(Console(), ["verb", "unit", "time", "processor", "wanted"], [row(*each) for each in found.items()], markdown)


def run(title: str, broker: Running, modules: Path) -> Times:
    """Run a verb to its end; compiled modules are kept in a directory."""
    environment = {
        **os.environ,
        "PYLOGBROKER_BOOTSTRAP_SERVER": f"{broker.session.host}:{broker.session.port}",
        "PYTHONPYCACHEPREFIX": str(modules),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed modules are compiled
    command = [sys.executable, "-m", "pylogbroker.cli"]
    if title == PYTHON:
        command = [sys.executable, "-c", "print()"]
    elif title == COMPLETION:
        words = "pylogbroker topic describe "
        environment |= {"_PYLOGBROKER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "3"}
    else:
        command += title.split()
    used, began = os.times(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=PROJECT)
    seconds, after = time.perf_counter() - began, os.times()
    if done.returncode or not done.stdout:
        raise BenchmarkError(f"{title} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    processor = after.children_user + after.children_system - used.children_user - used.children_system
    return Times(seconds, processor)


def row(title: str, times: Sequence[Times]) -> list[str]:
    """Return a row of the table."""
    clock = statistics.median(each.clock for each in times)
    processor = statistics.median(each.processor for each in times)
    wanted = f"{WANTED[title]} s" if title in WANTED else ""
    return [title, "s", f"{clock:.3f}", f"{processor:.2f}", wanted]


if __name__ == "__main__":
    main()
