"""Divides the tests among the workers of pytest-xdist: by units of work (`tests.support.work_units`), longest first.

Long units at the end would leave the other workers without work. Units without recorded seconds follow, and of these
first the files whose tests start processes. The quick ones are last, which keep all workers busy to the end.

Tests that start processes spend half of their time in waiting for them: there are two workers for each processor.
"""

from __future__ import annotations

import os

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.needs import PROCESS
from tests.support.work_units import recorded_seconds, unit_of


class WorkUnits(LoadFileScheduling):
    """Gives workers whole units."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return the number of `--numprocesses auto`, unless xdist's own variable gives it."""
    if config.getoption("dist") != "loadfile" or os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest units first; tests of a unit keep their order."""
    with_processes = {item.path for item in items if item.get_closest_marker(PROCESS)}
    seconds = recorded_seconds()

    def place(item: pytest.Item) -> tuple[int, str, bool]:
        unit = unit_of(item.nodeid)
        recorded = seconds.get(unit, 0)
        return -recorded, unit if recorded else "", item.path not in with_processes

    items.sort(key=place)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> WorkUnits | None:
    """Choose the scheduler of `--dist loadfile`."""
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # xdist's order is: files with many tests first
    return WorkUnits(config, log)
