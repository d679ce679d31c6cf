"""Runs of the measurement, each in a process of its own, and the checkout of another commit."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.brokers import PROJECT, scratch
from benchmarks.errors import BenchmarkError
from benchmarks.processor.figures import Figures, median_run

RUNS = 3
"""Processes for each side: memory is laid out differently in each, and so is the speed."""

OURS = ("benchmarks", "tests")
"""Packages that measure: those of this checkout, whatever is measured."""


def measure(
    sides: Mapping[str, Path], works: Sequence[str], seconds: float, directory: Path | None
) -> dict[str, dict[str, Figures]]:
    """Return the figures of each side, by work; the sides alternate, in changing order."""
    runs: dict[str, list[dict[str, Figures]]] = {name: [] for name in sides}
    for number in range(RUNS):
        for name in list(sides) if number % 2 == 0 else reversed(list(sides)):
            runs[name].append(_run(name, sides[name], works, seconds / RUNS, directory))
    return {name: median_run(of_side) for name, of_side in runs.items()}


def _run(name: str, checkout: Path, works: Sequence[str], seconds: float, directory: Path | None) -> dict[str, Figures]:
    """Measure the package `pylogbroker` of a checkout."""
    parent = str(directory.absolute()) if directory else ""
    command = [sys.executable, "-m", "benchmarks.processor.measurement", str(seconds), parent, *works]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    if done.returncode:
        raise BenchmarkError(f"the measurement of {name} failed:\n{done.stderr[-4000:].rstrip()}")
    return {work: Figures(**figures) for work, figures in json.loads(done.stdout).items()}


@contextmanager
def checkout_of(commit: str) -> Iterator[Path]:
    """Give a directory with the package `pylogbroker` of a commit, and this checkout's packages that measure."""
    revision = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if revision.returncode:
        raise BenchmarkError(f"--against {commit}: {PROJECT} has no such commit; `git log --all` lists its commits")
    with scratch(None) as directory:
        archive = _git("archive", "--format=tar", revision.stdout.decode().strip(), "--", "pylogbroker")
        if archive.returncode:
            raise BenchmarkError(f"--against {commit}: {archive.stderr.decode().strip()}")
        subprocess.run(["tar", "--extract", "--directory", directory], input=archive.stdout, check=True)
        for package in OURS:
            (directory / package).symlink_to(PROJECT / package)
        yield directory


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True)
    except FileNotFoundError:
        raise BenchmarkError("--against needs git, which is not installed") from None
