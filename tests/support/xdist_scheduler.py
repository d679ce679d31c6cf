"""Divides the tests among the workers of pytest-xdist.

A file stays on one worker, as with `--dist loadfile`: its tests share fixtures. Files that use the Spark session stay
together too, so that a run starts one session: it takes a gigabyte, and as long to start as fifty of its tests. They
are first, and then the tests that take half a minute each (`SPREAD`), each on any worker. Files whose tests start
processes follow. The quick ones are last, which keep all workers busy to the end.

Tests that start processes spend half of their time in waiting for them: there are two workers for each processor.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.needs import PROCESS

ROOT = Path(__file__).parents[2]
SESSION = "spark: SparkSession"  # the fixture of tests/support/spark_session.py, as an argument
#: Files of long tests that share no fixture: each test is a unit of work.
SPREAD = frozenset(("tests/simulation/test_simulation.py",))


class FilesAndSpark(LoadFileScheduling):
    """A file is a unit of work, and so are all files that use the Spark session, and each test of `SPREAD`."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


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


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return the number of `--numprocesses auto`, unless xdist's own variable gives it."""
    if config.getoption("dist") != "loadfile" or os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take long first; tests of a file keep their order."""
    with_processes = {item.path for item in items if item.get_closest_marker(PROCESS)}
    spread = {ROOT / file for file in SPREAD}
    items.sort(
        key=lambda item: (
            not uses_spark_session(item.path),
            item.path not in spread,
            item.path not in with_processes,
        )
    )


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesAndSpark | None:
    """Choose the scheduler of `--dist loadfile`."""
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # xdist's order is: files with many tests first
    return FilesAndSpark(config, log)
