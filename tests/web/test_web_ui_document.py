"""docs/web-ui.md: its tables name what the description has, and its commands work."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pylogbroker.web.views import CHANGES, FAULT_CHANGES, FAULT_VIEWS, VIEWS
from tests.web.described import answer_names, description, fields, parameters, required
from tests.web.test_changes import ChangeTests
from tests.web.test_views import NOW

DOCUMENT = Path(__file__).parents[2] / "docs" / "web-ui.md"
_PAGING = {"start", "count"}
_SHOWN_BY_THE_PAGE = {"search", "filter", "choices", "keys", "mechanisms", "formats", "format", "apis", "moments"}
_RECORDS = "/api/records"


def text() -> str:
    return DOCUMENT.read_text("utf-8")


def rows(heading: str) -> dict[str, tuple[str, str]]:
    """Return the cells of the table below a heading by the path of the first cell."""
    part = text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [
        re.split(r" ?\| ?", line.strip("|").strip())[:3] for line in part.splitlines() if line.startswith("| `/api/")
    ]
    return {path.strip("` "): (given, answer) for path, given, answer in lines}


def names(cell: str) -> set[str]:
    """Return the names in code quotes."""
    return set(re.findall(r"`([a-z_]+)`", cell))


TABLES = {"get": rows("Answers"), "post": rows("Changes")}
CASES = [(method, path) for method, table in TABLES.items() for path in table]


def test_every_path_has_a_row() -> None:
    shown = {f"/api/{name}" for name in (*VIEWS, *FAULT_VIEWS)} - {"/api/reset-group"}  # that is below the table
    assert set(TABLES["get"]) == shown
    assert set(TABLES["post"]) == {f"/api/{name}" for name in (*CHANGES, *FAULT_CHANGES)}


@pytest.mark.parametrize(("method", "path"), CASES)
def test_requests(method: str, path: str) -> None:
    cell = TABLES[method][path][0]
    if path == _RECORDS:
        return
    if "all fields" in cell:
        assert required(path, method) == fields(path)
        return
    known = fields(path) if method == "post" else parameters(path) - _PAGING
    assert known <= names(cell)


def test_parameters_of_records() -> None:
    part = text().partition("\n## Records\n")[2].partition("\n## ")[0]
    first = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    assert names(" ".join(first)) == parameters(_RECORDS)


@pytest.mark.parametrize(("method", "path"), CASES)
def test_answers(method: str, path: str) -> None:
    """Names in code quotes are those of values, or of what they may be."""
    described = json.dumps(description()["paths"][path]) + json.dumps(description()["components"]["schemas"])
    for name in names(TABLES[method][path][1]):
        assert f'"{name}"' in described, name


@pytest.mark.parametrize("path", [path for path in TABLES["get"] if path != _RECORDS])
def test_all_values_are_named(path: str) -> None:
    cell = TABLES["get"][path][1]
    before = ""
    if "the same of" in cell:
        before = TABLES["get"].get(f"{path}s", TABLES["get"]["/api/brokers"])[1]
    if "these fields" in cell:
        before = TABLES["get"][path][0]
    named = names(cell + before) | names(TABLES["get"][path][0])
    assert answer_names(path, "get") - _PAGING - {"total"} - _SHOWN_BY_THE_PAGE - named == set()


def commands() -> Iterator[tuple[str, str]]:
    """Yield the commands of the document with what they print."""
    for block in re.findall(r"```console\n(.*?)```", text(), re.DOTALL):
        for command, output in re.findall(r"^\$ (.*)\n((?:[^$\n].*\n)*)", block, re.MULTILINE):
            yield command, output.strip()


class TestCommands(ChangeTests):
    def test_documented_commands_work(self) -> None:
        self.node.create("clicks")
        self.node.produce("clicks", 0, *[NOW] * 7)
        found = list(commands())
        self.assertEqual(len(found), 2)
        for command, output in found:
            program, *words = shlex.split(command)
            self.assertEqual(program, "curl")
            body = self.run_curl(words)
            self.assertNotIn("error", body)
            if output:
                self.assertEqual(body, json.loads(output))
            else:
                self.assertEqual(len(body["records"]), 2)

    def run_curl(self, words: list[str]) -> Any:
        """Send what curl would send."""
        options = {words[at]: words[at + 1] for at in range(0, len(words) - 1, 2)}
        self.assertLessEqual(set(options), {"-H", "-d"})
        address = urlsplit(words[-1])
        self.assertEqual(address.netloc, "127.0.0.1:9464")
        if "-d" not in options:
            return self.ask(f"{address.path.removeprefix('/api/')}?{address.query}")
        self.assertEqual(options["-H"], "Content-Type: application/json")
        return self.change(address.path.removeprefix("/api/"), **json.loads(options["-d"]))
