"""Keeps the files of tests in memory, where there is a file system for that: a sync costs nothing there.

Tests kill processes, not machines, so a sync makes no difference to what they find. With `--thorough`, which
`make oracle` gives, files are on a disk: kills hit brokers within syncs, too. So they are in a given `TMPDIR`.

This module is a plugin of pytest.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

DIRECTORY = Path("/dev/shm")
FREE_BYTES_MIN = 4 << 30


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the directory of temporary files for this process and all that it starts."""
    if "TMPDIR" not in os.environ and not config.option.thorough and has_space(DIRECTORY):
        os.environ["TMPDIR"] = str(DIRECTORY)
        tempfile.tempdir = None  # what was found before


def has_space(directory: Path) -> bool:
    """True if the tests' files fit in there."""
    return os.access(directory, os.W_OK) and shutil.disk_usage(directory).free >= FREE_BYTES_MIN
