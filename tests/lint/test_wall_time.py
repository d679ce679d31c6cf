"""Uses of wall time in tests, and the list of those that are allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.texts import PythonFile
from tests.lint.wall_time import LIST, WallTime, findings, uses_in

PATH = Path("tests/test_something.py")
SOURCE = """
import time
from time import monotonic
from tests.support.reactor_run import sleep
time.sleep(1)
clock = time.monotonic
begun = monotonic()
await sleep(0.5)
threading.Event().wait(0.1)
assert queue.get(timeout=5) == 1
"""
OTHERS = """
import time
from tests.support.reactor_run import sleep
stamp = int(time.time())
await sleep(0)
clock.sleep(5)
assert began.wait(timeout=120)
assert began.wait(120)
asked.wait()
def monotonic(): ...
"""


def test_uses_are_found() -> None:
    assert sorted(uses_in(PythonFile(PATH, SOURCE))) == [5, 6, 7, 8, 9, 10]


def test_timestamps_and_long_limits_are_no_uses() -> None:
    assert list(uses_in(PythonFile(PATH, OTHERS))) == []


@pytest.mark.parametrize(
    ("allowed", "path", "message"),
    [
        ({}, PATH, "6 uses of wall time (lines 5, 6, 7, 8, 9, 10), allowed: 0; wait for an event or use"),
        ({PATH: 5}, PATH, "allowed: 5"),
        ({PATH: 7}, LIST, "tests/test_something.py has 6 uses of wall time, not 7: set the number to this"),
        ({PATH: 6, Path("tests/gone.py"): 1}, LIST, "tests/gone.py has 0 uses of wall time, not 1"),
    ],
)
def test_numbers_may_only_fall(allowed: dict[Path, int], path: Path, message: str) -> None:
    [finding] = findings([PythonFile(PATH, SOURCE)], WallTime(allowed))
    assert finding.path == path
    assert message in finding.message


def test_the_allowed_number_is_no_finding() -> None:
    assert list(findings([PythonFile(PATH, SOURCE)], WallTime({PATH: 6}))) == []


def test_groups_have_a_reason_and_files_one_group(tmp_path: Path) -> None:
    file = tmp_path / "list.toml"
    file.write_text('[one]\nreason = "so"\nuses = {"tests/a.py" = 1}\n[two]\nuses = {"tests/a.py" = 2}\n')
    problems = [finding.message for finding in findings([], WallTime.read(file))]
    assert problems[:2] == ["the group two has no reason", "tests/a.py is in more than one group"]
