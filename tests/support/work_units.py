"""Units of work of pytest-xdist's workers, and the time that each took when it was last recorded.

A file stays on one worker, as with `--dist loadfile`: its tests share fixtures. Files that use the Spark session stay
together too, so that a run starts one session: it takes a gigabyte, and as long to start as fifty of its tests. The
tests of `SPREAD` share no fixture: each is a unit of work.

`--record-durations` writes the seconds of all units that take `LISTED_SECONDS_MIN` or more to `work_units.json`. Units
that the run has not run keep their seconds. `tests.support.xdist_scheduler` starts the longest units first.

    make test ARGS=--record-durations

This module is a plugin of pytest.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).with_suffix(".json")
SESSION = "spark: SparkSession"  # the fixture of tests/support/spark_session.py, as an argument
#: Files of long tests that share no fixture.
SPREAD = frozenset(("tests/simulation/test_simulation.py",))
LISTED_SECONDS_MIN = 2


def unit_of(nodeid: str) -> str:
    """Return the name of the unit of work to which a test belongs."""
    file = nodeid.split("::", 1)[0]
    if file in SPREAD:
        return nodeid
    return SESSION if uses_spark_session(ROOT / file) else file


@cache
def uses_spark_session(file: Path) -> bool:
    """True if a test or a fixture in this file takes the session."""
    return SESSION in file.read_text()


@cache
def recorded_seconds() -> Mapping[str, int]:
    """Return the seconds of the long units, by name."""
    seconds: dict[str, int] = json.loads(RECORDED.read_text())
    return seconds


def updated(recorded: Mapping[str, int], run: Mapping[str, float]) -> dict[str, int]:
    """Return the recorded seconds with those of a run, the longest first; units without a file are left out."""
    seconds = {unit: second for unit, second in recorded.items() if unit == SESSION or _file(unit).exists()}
    seconds |= {unit: round(second) for unit, second in run.items()}
    listed = ((unit, second) for unit, second in seconds.items() if second >= LISTED_SECONDS_MIN)
    return dict(sorted(listed, key=lambda entry: (-entry[1], entry[0])))


def _file(unit: str) -> Path:
    return ROOT / unit.split("::", 1)[0]


@attrs.define
class Recorder:
    """Sums of the reported durations, with fixtures, by unit."""

    seconds: dict[str, float] = attrs.field(factory=lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the duration of a test or a fixture."""
        self.seconds[unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the table."""
        RECORDED.write_text(json.dumps(updated(recorded_seconds(), self.seconds), indent=1) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--record-durations", action="store_true", help=f"record which tests take long, in {RECORDED}")


def pytest_configure(config: pytest.Config) -> None:
    """Record in the run's first process, which gets the reports of all workers of xdist."""
    if config.option.record_durations and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())
