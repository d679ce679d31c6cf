"""Tables of the command's output."""

from __future__ import annotations

import pytest

from pylogbroker.cli.output import plain_table, rich_table, show

CELLS = [["orders", "3", "-"], ["a-longer-name", "12", "yes"], ["[bold]x[/]", "1000000", "a, b=c"]]


@pytest.mark.parametrize("cells", [CELLS, CELLS[:1], [["", "1", "x"]]])
def test_a_table_without_rich_looks_alike(cells: list[list[str]]) -> None:
    names = ["topic", "under replicated", "config"]
    are_numbers = [False, True, False]
    assert plain_table(names, are_numbers, cells) == rich_table(names, are_numbers, cells)


def test_wide_and_hostile_characters(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"key": "日本", "n": 1}, {"key": "\x1b[31m", "n": 20}], "table")
    assert capsys.readouterr().out == "key        n\n日本       1\n\\x1b[31m  20\n"


def test_numbers_are_on_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"a_b": 1, "c": "x", "d": True}, {"a_b": None, "c": "yy", "d": False}], "table")
    assert capsys.readouterr().out == "a b  c   d\n  1  x   yes\n  -  yy  no\n"
