"""What an installation consists of: every module, what lets Spark find it, and twistd's plugin in a directory that is
not ours alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = "from setuptools import setup; setup()"


def test_an_installation_has_every_module_and_the_plugin(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUILD, "--quiet", "build_py", f"--build-lib={tmp_path}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    built = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    packages = ("pylogbroker", "pyspark_pylogbroker")
    modules = {str(path.relative_to(ROOT)) for package in packages for path in (ROOT / package).rglob("*.py")}
    assert built == modules | {"pylogbroker/py.typed", "twisted/plugins/pylogbroker_plugin.py"}


def test_twistd_lists_the_plugin(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "--help"]
    shown = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True, timeout=60
    )
    assert "    pylogbroker      A broker for every Kafka client." in shown.stdout.splitlines()


def test_make_clean_removes_what_running_and_testing_leaves() -> None:
    shown = subprocess.run(["make", "--dry-run", "clean"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert {".venv", ".import_linter_cache", "twisted/plugins/dropin.cache"} <= set(shown.stdout.split())
