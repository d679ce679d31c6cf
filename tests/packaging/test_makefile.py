"""Paths that the Makefile names are there: pytest runs no test at all if one is missing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_all_files_of_the_portable_tests_exist() -> None:
    commands = subprocess.run(
        ["make", "--dry-run", "portable"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    paths = set(re.findall(r"(?<=\s)tests/\S+", commands))
    assert len(paths) > 15
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
