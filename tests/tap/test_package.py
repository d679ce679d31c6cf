"""Content of an installation: every module, what lets Spark find it, and twistd's plugin in a directory that is
not ours alone."""

from __future__ import annotations

import subprocess
import sys
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
BUILD = "from setuptools import setup; setup()"


def test_an_installation_has_every_module_and_the_plugin(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUILD, "--quiet", "build_py", f"--build-lib={tmp_path}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    built = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    packages = ("pylogbroker", "pyspark_pylogbroker")
    modules = {str(path.relative_to(ROOT)) for package in packages for path in (ROOT / package).rglob("*.py")}
    data = ("py.typed", "config/kafka_settings.tsv")
    web = ROOT / "pylogbroker" / "web"
    files = {
        str(path.relative_to(ROOT))
        for name in ("static", "templates", "topic_records/templates")
        for path in (web / name).iterdir()
    }
    others = {"twisted/plugins/pylogbroker_plugin.py", *(f"pylogbroker/{name}" for name in data), *files}
    assert built == modules | others


def test_twistd_lists_the_plugin(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "--help"]
    shown = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True, timeout=300
    )
    lines = [line.split(maxsplit=1) for line in shown.stdout.splitlines()]
    assert ["pylogbroker", "A broker for every Kafka client."] in lines


def test_make_clean_removes_files_of_runs_and_tests() -> None:
    shown = subprocess.run(["make", "--dry-run", "clean"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert {".venv", ".import_linter_cache", "twisted/plugins/dropin.cache"} <= set(shown.stdout.split())


def test_a_wheel_says_and_carries_the_license(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUILD, "--quiet", "egg_info", f"--egg-base={tmp_path}"]
    command += ["build", f"--build-base={tmp_path / 'build'}"]
    command += ["bdist_wheel", f"--dist-dir={tmp_path}", f"--bdist-dir={tmp_path / 'wheel'}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as files:
        names = {name.partition(".dist-info/")[2]: name for name in files.namelist()}
        metadata = message_from_bytes(files.read(names["METADATA"]))
        license_name = next(name for name in names.values() if name.endswith("/LICENSE"))
        assert files.read(license_name) == (ROOT / "LICENSE").read_bytes()
    assert "Apache-2.0" in {metadata["License"], metadata["License-Expression"]}


def test_git_ignores_files_of_twistd_and_the_example() -> None:
    left = [
        "twistd.pid",
        "twistd.log",
        "twistd.log.1",
        "twistd.log.2026-01-01",
        "activity-stream/report.html",
        "data/a",
    ]
    asked = subprocess.run(["git", "check-ignore", *left], cwd=ROOT, capture_output=True, text=True)
    assert asked.stdout.split() == left
