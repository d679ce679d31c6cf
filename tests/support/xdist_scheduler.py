"""Divides the tests among the workers of pytest-xdist.

A file stays on one worker, as with `--dist loadfile`: its tests share fixtures. Tests that use a Spark session stay
together too, so that a run starts one session: it takes a gigabyte, and as long to start as fifty of its tests.

On two cores the order of the files hardly matters. With measured times, longest first and xdist's own order differ by
less than one per cent of the run.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

SPARK = "tests/spark/"


class FilesAndSpark(LoadFileScheduling):
    """A file is a unit of work, and so is everything about Spark."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesAndSpark | None:
    """Choose the scheduler of `--dist loadfile`."""
    return FilesAndSpark(config, log) if config.getoption("dist") == "loadfile" else None
