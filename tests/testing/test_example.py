"""The example of a service with its tests, run as its authors would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.budget import Budget

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "tested_service"
TESTS_MIN = 170
SOME = "test_a_rejected_order or weekend or passwords or (test_errors_that_pass and Produce)"


def test_the_service(budget: Budget, tmp_path: Path) -> None:
    """Run some of the tests, and with `--thorough` all, on several workers."""
    selected = ["-n", "4"] if budget.thorough else ["-n", "2", "-k", SOME]
    plugins = ["-p", "xdist", "-p", "pylogbroker.testing.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, *selected]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    environment["TMPDIR"] = str(tmp_path)
    done = subprocess.run(
        command, cwd=EXAMPLE, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.glob("pylogbroker-*")) == []
    [count] = re.findall(r"(\d+) passed", done.stdout)
    assert int(count) >= (TESTS_MIN if budget.thorough else 15)
    assert "warning" not in done.stdout
