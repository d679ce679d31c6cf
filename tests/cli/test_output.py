"""Tables of the command's output."""

from __future__ import annotations

import io
import json

import pytest
from click.testing import CliRunner

from pylogbroker.cli import main
from pylogbroker.cli.arguments import RecordOutput
from pylogbroker.cli.output import for_terminal, note, plain_table, rich_table, show
from pylogbroker.errors import PylogbrokerError

CELLS = [["orders", "3", "-"], ["a-longer-name", "12", "yes"], ["[bold]x[/]", "1000000", "a, b=c"]]


@pytest.mark.parametrize("cells", [CELLS, CELLS[:1], [["", "1", "x"]]])
def test_a_table_without_rich_looks_alike(cells: list[list[str]]) -> None:
    names = ["topic", "under replicated", "config"]
    are_numbers = [False, True, False]
    assert plain_table(names, are_numbers, cells) == rich_table(names, are_numbers, cells)


def test_wide_and_hostile_characters(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"key": "日本", "n": 1}, {"key": "\x1b[31m", "n": 20}], "table")
    assert capsys.readouterr().out == "key        n\n日本       1\n\\x1b[31m  20\n"


HOSTILE = "\x1b]0;x\x07\x9b31m\u202e\x7f"


def test_names_from_others_do_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("table", "json", "yaml"):
        show([{"name": HOSTILE}], form)
    note(f"there is no group {HOSTILE}\nanother line")
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert all(character.isprintable() or character == "\n" for character in text), text
    assert shown.err.splitlines()[1] == "another line"


@pytest.mark.parametrize("columns", [20, 40])
def test_narrow_terminals_get_a_line_for_each_cell(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = [{"topic": name, "replication_factor": 3, "under_replicated": 0, "partitions": 12} for name in "ab"]
    show(rows, "table")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "topic               a",
        "replication factor  3",
        "under replicated    0",
        "partitions          12",
        "",
    ]
    assert lines[5].split() == ["topic", "b"]


def test_heads_break_between_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    show([{"topic": "a", "replication_factor": 3}], "table")
    assert "  replication\x1b" in capsys.readouterr().out


def test_json_keeps_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    show({"name": HOSTILE, "wide": "日本"}, "json")
    text = capsys.readouterr().out
    assert json.loads(text) == {"name": HOSTILE, "wide": "日本"}
    assert "日本" in text


def test_errors_of_brokers_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PylogbrokerError(f"no {HOSTILE}")

    monkeypatch.setattr("pylogbroker.cli.cluster_options.Connection.admin", fail)
    done = CliRunner().invoke(main, ["topic", "list"])
    assert done.exit_code == 1
    assert done.stderr == "Error: no \\x1b]0;x\\x07\\x9b31m\\u202e\\x7f\n"


def test_records_on_a_terminal_have_no_control_characters_but_ends_of_lines_and_tabs() -> None:
    data = "a\x1b[2J\r\tä\x9b1m日\x7f\n".encode() + b"\xff\n"
    assert for_terminal(data) == "a\\x1b[2J\\x0d\tä\\xc2\\x9b1m日\\x7f\n".encode() + b"\xff\n"
    for is_terminal in (True, False):
        file = io.BytesIO()
        RecordOutput(file, is_terminal).write(data)
        assert file.getvalue() == (for_terminal(data) if is_terminal else data)


def test_numbers_are_on_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"a_b": 1, "c": "x", "d": True}, {"a_b": None, "c": "yy", "d": False}], "table")
    assert capsys.readouterr().out == "a b  c   d\n  1  x   yes\n  -  yy  no\n"
