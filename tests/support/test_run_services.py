"""A run's services: one for all workers, stopped in the end, and gone if the run is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.line_process import LineProcess
from tests.support.run_services import DIES_WITH_PARENT

ROOT = Path(__file__).parents[2]
CATS = """
import os, subprocess
from pathlib import Path
import attrs
from tests.support import run_services

@attrs.frozen
class Cat:
    process: subprocess.Popen[bytes]
    facts: dict[str, str]

    def stop(self):
        self.process.kill()
        self.process.wait()
        print(f"\\nstopped {self.process.pid}", flush=True)
        return os.environ["COMPLAINT"].splitlines()

def start(directory):
    process = subprocess.Popen([*run_services.DIES_WITH_PARENT, "cat"], stdin=subprocess.PIPE)
    return Cat(process, {"pid": str(process.pid)})

def fail(directory):
    raise RuntimeError("it is not installed")
"""
CONFTEST = """
import pytest
from tests.support import run_services

def pytest_configure(config):
    config.pluginmanager.register(run_services)

@pytest.fixture
def services(pytestconfig):
    return run_services.of(pytestconfig)
"""
USED = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_used(services, number):
    with open("pids", "a") as file:
        print(services.get("cats:start")["pid"], file=file)
"""
BROKEN = """
import pytest

def test_broken(services):
    with pytest.raises(RuntimeError, match="it is not installed"):
        services.get("cats:fail")
"""
WAITING = """
import sys, time

def test_waiting(services):
    print("pid", services.get("cats:start")["pid"], file=sys.__stdout__, flush=True)
    sys.__stdin__.read()
"""


def run(directory: Path, tests: str, *options: str, error_line: str = "") -> subprocess.CompletedProcess[str]:
    """Run these tests in a pytest of their own."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{directory}", "COMPLAINT": error_line}
    return subprocess.run(
        _command(directory, tests, *options), cwd=directory, env=environment, capture_output=True, text=True
    )


def _command(directory: Path, tests: str, *options: str) -> list[str]:
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "cats.py").write_text(CATS)
    (directory / "test_it.py").write_text(tests)
    (directory / "pytest.ini").write_text("[pytest]\n")
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *options]


def test_all_workers_get_one_process_and_its_errors_fail_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, USED, "-n", "2", error_line="an unforeseen error")
    assert "6 passed" in done.stdout
    [pid] = set((tmp_path / "pids").read_text().split())
    assert done.stdout.count(f"stopped {pid}") == 1
    assert "errors logged by what cats:start has started" in done.stdout
    assert "an unforeseen error" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_a_run_without_workers_has_one_process_too(tmp_path: Path) -> None:
    done = run(tmp_path, USED, "-n", "0")
    [pid] = set((tmp_path / "pids").read_text().split())
    assert done.stdout.count(f"stopped {pid}") == 1
    assert done.returncode == pytest.ExitCode.OK


def test_a_service_that_cannot_start_names_the_cause(tmp_path: Path) -> None:
    assert run(tmp_path, BROKEN, "-n", "1").returncode == pytest.ExitCode.OK


@pytest.mark.skipif(not DIES_WITH_PARENT, reason="needs setpriv of util-linux")
def test_a_service_dies_with_the_run(tmp_path: Path) -> None:
    command = _command(tmp_path, WAITING, "-n", "0", "-s")
    with LineProcess(
        command,
        cwd=tmp_path,
        environment={"PYTHONPATH": f"{ROOT}:{tmp_path}", "COMPLAINT": "", "TMPDIR": str(tmp_path)},
    ) as process:
        service = os.pidfd_open(int(process.expect(r"pid (\d+)")[1]))
        process.signal(signal.SIGKILL)
        poll = select.poll()  # a worker may have more files open than select.select can name
        poll.register(service, select.POLLIN)
        ended = poll.poll(120_000)
    os.close(service)
    assert ended
