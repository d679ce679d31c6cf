"""Order of the work of pytest-xdist's workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("xdist")

from tests.support import xdist_scheduler
from tests.support.work_units import ROOT, SESSION

QUICK, WITH_PROCESS = "tests/wire/test_steps.py", "tests/cli/test_produce.py"
LONG, LONGER, SPARK = "tests/tap/brokers/test_brokers.py", "tests/cli/test_cli.py", "tests/spark/test_queries.py"
SPREAD = "tests/simulation/test_simulation.py"


class Item:
    """The part of an item that the order depends on."""

    def __init__(self, nodeid: str, has_process: bool = False) -> None:
        self.nodeid, self.has_process = nodeid, has_process
        self.path = Path(ROOT / nodeid.split("::")[0])

    def get_closest_marker(self, name: str) -> bool:
        return self.has_process


@pytest.mark.parametrize(
    ("seconds", "tests"),
    [
        ({}, [f"{WITH_PROCESS}::test_a", f"{QUICK}::test_b", f"{QUICK}::test_a"]),
        (
            {LONG: 20, LONGER: 30, SESSION: 25},
            [
                f"{LONGER}::test_b",
                f"{LONGER}::test_a",
                f"{SPARK}::test_a",
                f"{LONG}::test_a",
                f"{WITH_PROCESS}::test_a",
            ],
        ),
        ({QUICK: 9, LONG: 9}, [f"{LONG}::test_a", f"{LONG}::test_b", f"{QUICK}::test_a"]),
        ({f"{SPREAD}::test_a[1]": 8, QUICK: 5}, [f"{SPREAD}::test_a[1]", f"{QUICK}::test_a", f"{SPREAD}::test_a[0]"]),
    ],
    ids=["process first", "longest first", "equally long", "spread"],
)
def test_order(monkeypatch: pytest.MonkeyPatch, seconds: Mapping[str, int], tests: list[str]) -> None:
    """Two tests of a file keep their order, and no other file comes between them."""
    monkeypatch.setattr(xdist_scheduler, "recorded_seconds", lambda: seconds)
    files = {test.split("::")[0] for test in tests}
    by_file = [[test for test in tests if test.startswith(f"{file}::")] for file in sorted(files)]
    for file_tests in (by_file, by_file[::-1]):
        items = [Item(test, test.startswith(WITH_PROCESS)) for part in file_tests for test in part]
        xdist_scheduler.pytest_collection_modifyitems(items)  # type: ignore[arg-type]
        assert [item.nodeid for item in items] == tests
