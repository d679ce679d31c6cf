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

from pylogbroker.web.views import FAULT_ROUTES, ROUTES
from tests.web.described import Operation, description, operations
from tests.web.test_changes import ChangeTests
from tests.web.test_views import NOW

DOCUMENT = Path(__file__).parents[2] / "docs" / "web-ui.md"
_PAGING = {"start", "count"}
_SHOWN_BY_THE_PAGE = {"search", "filter", "choices", "keys", "mechanisms", "formats", "format", "apis", "moments"}
_RECORDS = ("GET", "/api/topics/{topic}/preview")
_BELOW = {("GET", "/api/groups/{id}/reset"), ("GET", "/api/topics/{topic}/preview/live")}
"""Paths that have no row, but sentences."""
Key = tuple[str, str]


def text() -> str:
    return DOCUMENT.read_text("utf-8")


def rows(heading: str) -> dict[Key, tuple[str, str]]:
    """Return the cells of the table below a heading by method and path of the first cell."""
    part = text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found: dict[Key, tuple[str, str]] = {}
    for line in part.splitlines():
        match = re.match(r"\| `(?:(POST|PUT|DELETE) )?(/api/[^`]*)` \|([^|]*)\|([^|]*)\|", line)
        if match:
            found[match[1] or "GET", match[2]] = match[3], match[4]
    return found


def names(cell: str) -> set[str]:
    """Return the names in code quotes."""
    return set(re.findall(r"`([a-z_]+)`", cell))


ANSWERS, CHANGES = rows("Answers"), rows("Changes")
TABLES = {**ANSWERS, **CHANGES}


def described(key: Key) -> Operation:
    return next(each for each in operations().values() if (each.method, each.path) == key)


def test_every_path_has_a_row() -> None:
    known = {(route.method, route.path) for route in (*ROUTES, *FAULT_ROUTES)}
    assert set(TABLES) == known - _BELOW
    assert {method for method, _ in ANSWERS} == {"GET"}


@pytest.mark.parametrize("key", TABLES)
def test_requests(key: Key) -> None:
    cell = TABLES[key][0]
    operation = described(key)
    if key == _RECORDS:
        return
    if "all fields" in cell:
        assert operation.required == operation.names
        return
    assert operation.names - operation.placeholders - _PAGING <= names(cell)


def test_parameters_of_records() -> None:
    part = text().partition("\n## Records\n")[2].partition("\n## ")[0]
    first = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    operation = described(_RECORDS)
    assert names(" ".join(first)) == operation.names - operation.placeholders


@pytest.mark.parametrize("key", TABLES)
def test_answers(key: Key) -> None:
    """Names in code quotes are those of values, or of what they may be."""
    whole = json.dumps(described(key).described) + json.dumps(description()["components"]["schemas"])
    for name in names(TABLES[key][1]):
        assert f'"{name}"' in whole, name


@pytest.mark.parametrize("key", [key for key in ANSWERS if key != _RECORDS])
def test_all_values_are_named(key: Key) -> None:
    _, path = key
    cell = TABLES[key][1]
    before = ""
    if "the same of" in cell:
        before = TABLES["GET", path[: path.index("/{")]][1]
    if "these fields" in cell:
        before = TABLES[key][0]
    operation = described(key)
    named = names(cell + before) | names(TABLES[key][0]) | operation.placeholders
    assert operation.answer_names - _PAGING - {"total"} - _SHOWN_BY_THE_PAGE - named == set()


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
            self.assertEqual(output, "")
            if "records" in body:
                self.assertEqual(len(body["records"]), 2)
            else:
                self.assertEqual(self.ask("topic?name=orders")["id"], body["id"])

    def run_curl(self, words: list[str]) -> Any:
        """Send what curl would send."""
        options = {words[at]: words[at + 1] for at in range(0, len(words) - 1, 2)}
        self.assertLessEqual(set(options), {"-H", "-d"})
        address = urlsplit(words[-1])
        self.assertEqual(address.netloc, "127.0.0.1:9464")
        if "-d" not in options:
            return json.loads(self.connect().get(f"{address.path}?{address.query}").body)
        _, _, content_type = options["-H"].partition(": ")
        return json.loads(self.post(address.path, options["-d"].encode(), content_type).body)
