"""Units of work of the workers: files, the Spark session's files together, and long tests alone; their durations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import work_units
from tests.support.work_units import RECORDED, ROOT, SESSION, SPREAD, Recorder, recorded_seconds, unit_of, updated

THIS = "tests/support/test_work_units.py"
OTHER = "tests/support/test_waiting.py"


def test_a_file_is_a_unit() -> None:
    assert unit_of(f"{THIS}::TestClass::test_one[a::b]") == unit_of(f"{THIS}::test_two") == THIS


def test_files_of_the_spark_session_are_one_unit() -> None:
    files = ("test_queries.py", "test_activity_stream.py")
    assert {unit_of(f"tests/spark/{file}::test_one") for file in files} == {SESSION}


@pytest.mark.parametrize("file", sorted(SPREAD))
def test_long_tests_are_units_of_their_own(file: str) -> None:
    assert (ROOT / file).is_file()
    tests = [f"{file}::test_one[{number}]" for number in range(2)]
    assert [unit_of(test) for test in tests] == tests


def test_recorded_units_exist() -> None:
    assert all((ROOT / unit.split("::")[0]).is_file() for unit in recorded_seconds() if unit != SESSION)


def test_units_of_a_run_replace_their_recorded_seconds() -> None:
    before = {THIS: 30, OTHER: 10, SESSION: 20, "tests/test_deleted.py": 40}
    after = updated(before, {THIS: 1.4, "tests/conftest.py": 14.6, "tests/__init__.py": 1.0})
    assert list(after.items()) == [(SESSION, 20), ("tests/conftest.py", 15), (OTHER, 10)]


def test_a_run_is_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def report(test: str, seconds: float) -> pytest.TestReport:
        return pytest.TestReport(test, (THIS, 1, ""), {}, "passed", None, "call", duration=seconds)

    expected = {THIS: 7, **{unit: seconds for unit, seconds in recorded_seconds().items() if unit != THIS}}
    monkeypatch.setattr(work_units, "RECORDED", tmp_path / RECORDED.name)
    recorder = Recorder()
    for test, seconds in ((f"{THIS}::test_one", 3.0), (f"{THIS}::test_two", 4.0), (f"{OTHER}::test_one", 0.1)):
        recorder.pytest_runtest_logreport(report(test, seconds))
    recorder.pytest_sessionfinish()
    assert json.loads((tmp_path / RECORDED.name).read_text()) == {k: v for k, v in expected.items() if k != OTHER}
