"""Units of work of the workers: files, the Spark session's files together, and long tests alone."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("xdist")

from tests.support import xdist_scheduler
from tests.support.xdist_scheduler import ROOT, SESSION, SPREAD, unit_of


def test_a_file_is_a_unit() -> None:
    file = "tests/support/test_waiting.py"
    assert unit_of(f"{file}::TestClass::test_one[a::b]") == unit_of(f"{file}::test_two") == file


def test_files_of_the_spark_session_are_one_unit() -> None:
    files = ("test_queries.py", "test_activity_stream.py")
    assert {unit_of(f"tests/spark/{file}::test_one") for file in files} == {SESSION}


@pytest.mark.parametrize("file", sorted(SPREAD))
def test_long_tests_are_units_of_their_own(file: str) -> None:
    assert (ROOT / file).is_file()
    tests = [f"{file}::test_one[{number}]" for number in range(2)]
    assert [unit_of(test) for test in tests] == tests


def test_long_tests_come_before_short_ones() -> None:
    class Item:
        def __init__(self, file: str, has_process: bool = False) -> None:
            self.path, self.has_process = Path(ROOT / file), has_process

        def get_closest_marker(self, name: str) -> bool:
            return self.has_process

    [long] = SPREAD
    short, with_process, spark = "tests/wire/test_steps.py", "tests/cli/test_cli.py", "tests/spark/test_queries.py"
    items = [Item(short), Item(with_process, True), Item(long), Item(spark, True)]
    xdist_scheduler.pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    assert [str(item.path.relative_to(ROOT)) for item in items] == [spark, long, with_process, short]
