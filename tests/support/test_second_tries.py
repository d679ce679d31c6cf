"""Second tries of failed tests, in runs of pytest of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.second_tries import FILE, UNSTABLE_MAX

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.support import budget, run_services, second_tries

def pytest_addoption(parser, pluginmanager):
    for plugin in (budget, run_services, second_tries):
        pluginmanager.register(plugin)
"""
TESTS = """
import os
from pathlib import Path
import pytest

def fails_once(name):
    tries = Path(name)
    tries.touch()
    with tries.open("a") as file:
        print(os.getpid(), file=file)
    assert tries.read_text().count("\\n") > 1, "too slow"

@pytest.fixture
def slow_fixture():
    fails_once("fixture")

def test_good():
    pass

def test_unstable():
    fails_once("test")

def test_with_an_unstable_fixture(slow_fixture):
    pass
"""
WRONG = """
def test_wrong():
    Path("wrong").touch()
    assert 1 == 2
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of pytest on the given tests."""

    def run(tests: str, *options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_it.py").write_text(tests)
        (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:anyio", "test_it.py", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    return run


@pytest.mark.parametrize("options", [(), ("-n", "2", "--dist", "loadfile")], ids=["alone", "workers"])
def test_unstable_tests_are_listed_and_the_run_passes(run: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(TESTS, "--second-try", *options)
    assert done.returncode == 0, done.stdout
    unstable = ["test_it.py::test_unstable", "test_it.py::test_with_an_unstable_fixture"]
    assert (tmp_path / FILE).read_text().split() == unstable
    assert "too slow" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 passed, 2 unstable")
    first, second = (tmp_path / "test").read_text().split()
    assert first != second, "the second try is in a fresh process"


def test_a_run_that_passes_leaves_no_list(run: Run, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("of an earlier run\n")
    done = run("def test_good(): pass", "--second-try")
    assert (done.returncode, (tmp_path / FILE).exists()) == (0, False)


def test_two_failures_of_a_test_fail_the_run(run: Run, tmp_path: Path) -> None:
    done = run(TESTS + WRONG, "--second-try")
    assert done.returncode == 1
    assert "second try of test_it.py::test_wrong" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed, 2 unstable")
    assert "test_wrong" not in (tmp_path / FILE).read_text()


def test_too_many_failures_are_not_tried_again(run: Run) -> None:
    tests = f"import pytest\n@pytest.mark.parametrize('n', range({UNSTABLE_MAX + 1}))\ndef test_bad(n): assert 0\n"
    done = run(tests, "--second-try")
    assert done.returncode == 1
    assert f"{UNSTABLE_MAX + 1} tests failed, more than {UNSTABLE_MAX}: none was run again" in done.stdout


@pytest.mark.parametrize(
    ("tests", "status"), [("import nothing_like_this", 2), ("", 5)], ids=["collection error", "no tests"]
)
def test_other_ends_of_a_run_keep_their_status(run: Run, tests: str, status: int) -> None:
    assert run(tests, "--second-try").returncode == status


def test_nothing_is_tried_again_without_the_option(run: Run) -> None:
    done = run(TESTS)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed, 1 error")


def test_errors_that_a_service_logs_fail_the_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "complaining.py").write_text(
        "class Service:\n    facts = {}\n    def stop(self): return ['disk on fire']\n"
        "def start(directory): return Service()\n"
    )
    use = "from tests.support import run_services\ndef test_use(request):\n"
    use += "    run_services.of(request.config).get('complaining:start')\n"
    done = run(TESTS + use, "--second-try", "-p", "complaining")
    assert done.returncode == 1
    assert "2 unstable" in done.stdout
    assert "disk on fire" in done.stdout


def test_the_second_try_has_the_options_and_the_seed_of_the_run(run: Run, tmp_path: Path) -> None:
    tests = """
def test_seed(budget):
    with open("seeds", "a") as file:
        print(budget.seed, budget.thorough, file=file)
    assert 0
"""
    run(tests, "--second-try", "--thorough")
    first, second = (tmp_path / "seeds").read_text().splitlines()
    assert first == second
    assert first.endswith("True")
