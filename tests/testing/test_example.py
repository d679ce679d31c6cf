"""The example of a service with its tests, run as its authors would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.peers.kafka import KafkaBroker
from tests.support.budget import Budget

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "tested_service"
TESTS = 200
SOME = "test_a_rejected_order or weekend or passwords or (test_errors_that_pass and Produce)"


def test_the_service(budget: Budget, tmp_path: Path) -> None:
    """Run some of the tests, and with `--thorough` all, on several workers."""
    selected = ["-n", "4"] if budget.thorough else ["-n", "2", "-k", SOME]
    output = run_tests(tmp_path, *selected)
    [count] = re.findall(r"(\d+) passed", output)
    assert int(count) == TESTS if budget.thorough else int(count) >= 15


def test_the_service_on_apache_kafka(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka") as kafka:
        output = run_tests(tmp_path, "-n", "2", "--kafka-bootstrap", kafka.address)
    [(passed, skipped)] = re.findall(r"(\d+) passed, (\d+) skipped", output)
    assert int(passed) + int(skipped) == TESTS
    assert int(passed) >= 150


def run_tests(directory: Path, *options: str) -> str:
    """Run the example's tests, and return their output; nothing is left over."""
    plugins = ["-p", "xdist", "-p", "pylogbroker.testing.pytest_plugin", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    environment["TMPDIR"] = str(directory)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options],
        cwd=EXAMPLE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(directory.glob("pylogbroker-*")) == []
    assert "warning" not in done.stdout
    return done.stdout
