"""`python -m benchmarks.lines`: how fast the command `pylogbroker` writes and reads lines, beside kcat.

    python -m benchmarks.lines                      # 5,000,000 lines of 100 bytes
    python -m benchmarks.lines --lines 500000 --rounds 3

Both commands work on one broker, one after the other: each writes a file of lines into a topic of its own, and reads
that topic again. What they read must be as long as the file. kcat must be installed. Times of the processor are those
of the command alone, not the broker's.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import PROJECT, Running, own, scratch
from benchmarks.errors import BenchmarkError

LINE_BYTES: Final = 100
WANTED: Final = 0.5
OWN: Final = "pylogbroker"
KCAT: Final = "kcat"


@attrs.frozen
class Work:
    """Words of both commands; `writes` says in which direction records go.

    TOPIC and FILE stand for names, LINES for the number of lines.
    """

    title: str
    writes: bool
    own: str
    kcat: str


WORKS: Final = (
    Work("produce", True, "produce TOPIC FILE", "-P -t TOPIC -l FILE -X acks=all -X enable.idempotence=true"),
    Work("consume", False, "consume TOPIC -e", "-C -t TOPIC -e -q"),
    Work(
        "consume in a group",
        False,
        "consume TOPIC -g lines -n LINES",
        "-q -c LINES -X auto.offset.reset=earliest -G lines TOPIC",
    ),
)


@attrs.frozen
class Times:
    """Seconds of one run: by the clock, and of the processor."""

    clock: float
    processor: float


@click.command()
@click.option("--lines", default=5_000_000, show_default=True, help="Number of lines.")
@click.option("--rounds", default=1, show_default=True, help="Number of runs of each command.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(lines: int, rounds: int, directory: Path | None, markdown: bool) -> None:
    """Measure how long lines take."""
    if shutil.which(KCAT) is None:
        raise BenchmarkError("kcat is not installed")
    times: dict[tuple[str, str], list[Times]] = {}
    with ExitStack() as stack:
        files = stack.enter_context(scratch(directory))
        broker = stack.enter_context(own(directory))
        file = files / "lines"
        line = b"x" * (LINE_BYTES - 1) + b"\n"
        with file.open("wb") as output:
            for start in range(0, lines, 10_000):
                output.write(line * min(10_000, lines - start))
        for _ in range(rounds):
            for name in (OWN, KCAT):
                with broker.session.topic() as topic:
                    for work in WORKS:
                        times.setdefault((work.title, name), []).append(run(work, name, broker, topic, file, lines))
    rows = [row(work.title, times[work.title, OWN], times[work.title, KCAT], lines) for work in WORKS]
    names = ["work", "pylogbroker s", "kcat s", "pylogbroker CPU s", "kcat CPU s", "speed", "wanted"]
    show(Console(), names, rows, markdown)


def run(work: Work, name: str, broker: Running, topic: str, file: Path, lines: int) -> Times:
    """Run a command to its end; raise BenchmarkError if it fails, or reads less than the file has."""
    address = f"{broker.session.host}:{broker.session.port}"
    start = [sys.executable, "-m", "pylogbroker.cli"] if name == OWN else [KCAT]
    names = {"TOPIC": topic, "FILE": str(file), "LINES": str(lines)}
    words = [names.get(word, word) for word in (work.own if name == OWN else work.kcat).split()]
    command = [*start, "-b", address, *words] if name == KCAT else [*start, *words, "-b", address]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    used, began = os.times(), time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=PROJECT
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        received = 0
        while chunk := process.stdout.read(1 << 20):
            received += len(chunk)
        errors = process.stderr.read().decode()
    seconds, after = time.perf_counter() - began, os.times()
    if process.returncode or (not work.writes and received != file.stat().st_size):
        raise BenchmarkError(f"{' '.join(command)} ended with {process.returncode}, {received} bytes:\n{errors}")
    processor = after.children_user + after.children_system - used.children_user - used.children_system
    return Times(seconds, processor)


def row(title: str, ours: list[Times], theirs: list[Times], lines: int) -> list[str]:
    """Return a row of the table; the speed is kcat's time of the processor in relation to this command's."""
    clocks = [statistics.median(one.clock for one in times) for times in (ours, theirs)]
    processor = [statistics.median(one.processor for one in times) for times in (ours, theirs)]
    figures = [f"{seconds:.2f}" for seconds in (*clocks, *processor)]
    speed = f"{clocks[1] / clocks[0]:.2f} x, CPU {processor[1] / processor[0]:.2f} x"
    return [f"{title} {lines:,}", *figures, speed, f"{WANTED} x"]


if __name__ == "__main__":
    main()
