"""Output of commands as a table, JSON or YAML. `docs/command-line.md` has the members of each command's JSON."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    import json

    import yaml  # type: ignore[import-untyped]
    from rich import console as rich_console
    from rich import table as rich_tables
    from rich import text as rich_text
else:
    json = on_first_use("json")
    rich_console = on_first_use("rich.console")
    rich_tables = on_first_use("rich.table")
    rich_text = on_first_use("rich.text")
    yaml = on_first_use("yaml")

Row = Mapping[str, Any]

FORMATS: Final = ("table", "json", "yaml")
_BETWEEN_COLUMNS: Final = 2
_WIDTH_MAX: Final = 100_000  # of output that no terminal cuts
#: Control characters that JSON and YAML may hold as they are: DEL, C1, and those that change the direction of text.
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: C0 except tab and LF, DEL, and C1 in UTF-8.
_CONTROL_BYTES: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


def format_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the form of the output as `output`."""
    return click.option(
        "--format",
        "output",
        type=click.Choice(FORMATS),
        default="table",
        envvar="PYLOGBROKER_FORMAT",
        show_default=True,
        help="Form of the output. [$PYLOGBROKER_FORMAT]",
    )(function)


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass `yes`: whether not to ask."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(function)


def confirm(question: str, yes: bool) -> None:
    """Ask on standard error, so that the output stays clean; end with code 1 without consent."""
    if not yes:
        click.confirm(escaped_lines(question), abort=True, err=True)


def note(text: object) -> None:
    """Write a text for people to standard error; names from the cluster in it do nothing to a terminal."""
    click.echo(escaped_lines(str(text)), err=True)


def show(value: Row | Sequence[Row], output: str, rows: Sequence[Row] | None = None) -> None:
    """Write a value: an object, or a list of objects with the same members.

    A table has `rows` instead, if given.
    """
    if output == "json":
        click.echo(_UNPRINTABLE.sub(_escaped_in_json, json.dumps(value, indent=2, ensure_ascii=False)))
    elif output == "yaml":
        with required_by("--format yaml"):
            dump = yaml.safe_dump
        text = dump(_plain(value), sort_keys=False, allow_unicode=True)
        if _UNPRINTABLE.search(text):
            text = dump(_plain(value), sort_keys=False)  # YAML escapes all that is not ASCII
        click.echo(text, nl=False)
    else:
        shown = value if rows is None else rows
        _show_table([{"name": name, "value": shown[name]} for name in shown] if isinstance(shown, Mapping) else shown)


def _show_table(rows: Sequence[Row]) -> None:
    if not rows:
        click.echo("(none)", err=True)
        return
    names = [name.replace("_", " ") for name in rows[0]]
    are_numbers = [all(_is_number(row[name]) for row in rows) for name in rows[0]]
    cells = [[escaped(cell(value)) for value in row.values()] for row in rows]
    is_simple = all(text.isascii() for row in [names, *cells] for text in row)
    if sys.stdout.isatty() and _width_min(names) > shutil.get_terminal_size().columns:
        lines = blocks(names, cells)
    else:
        make = plain_table if is_simple and not sys.stdout.isatty() else rich_table
        lines = make(names, are_numbers, cells)
    for line in lines:
        click.echo(line)


def _width_min(names: list[str]) -> int:
    """Return the width of a table whose heads break between words alone."""
    return sum(max(map(len, name.split())) + _BETWEEN_COLUMNS for name in names) - _BETWEEN_COLUMNS


def blocks(names: list[str], cells: list[list[str]]) -> list[str]:
    """Return a line for each cell, with an empty one between rows, for terminals that are too narrow for a table."""
    width = max(map(len, names))
    lines: list[str] = []
    for row in cells:
        lines += [""] if lines else []
        lines += [f"{name.ljust(width)}  {text}".rstrip() for name, text in zip(names, row, strict=True)]
    return lines


def plain_table(names: list[str], are_numbers: list[bool], cells: list[list[str]]) -> list[str]:
    """Return the lines that `rich_table` makes for a file: importing rich takes a tenth of a command's start."""
    rows = [names, *cells]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    columns = [*zip(widths, are_numbers, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if is_number else text.ljust(width)
            for text, (width, is_number) in zip(row, columns, strict=True)
        ).rstrip()
        for row in rows
    ]


def rich_table(names: list[str], are_numbers: list[bool], cells: list[list[str]]) -> list[str]:
    """Return lines that fit the terminal; wide characters count twice."""
    table = rich_tables.Table(box=None, pad_edge=False)
    for name, is_number in zip(names, are_numbers, strict=True):
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(rich_text.Text, row))
    console = rich_console.Console(width=None if sys.stdout.isatty() else _WIDTH_MAX, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | None) and value is not True


def cell(value: Any) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case Mapping():
            return ", ".join(f"{name}={cell(member)}" for name, member in value.items()) or "-"
        case list() | tuple():
            return ",".join(map(cell, value)) or "-"
    return str(value)


def escaped(text: str) -> str:
    """Return text whose control characters do nothing to a terminal."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def escaped_lines(text: str) -> str:
    """Return a text of several lines, each one as `escaped` does."""
    return "\n".join(map(escaped, text.split("\n")))


def for_terminal(data: bytes) -> bytes:
    """Return bytes of records with control characters escaped, except those that end lines and columns."""
    return _CONTROL_BYTES.sub(_escaped_bytes, data)


def _escaped_bytes(match: re.Match[bytes]) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in match[0])


def _escaped_in_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _plain(value: Any) -> Any:
    """Return a value without subclasses of str and int, which YAML has no form for."""
    match value:
        case bool() | None | float():
            return value
        case int():
            return int(value)
        case str():
            return str(value)
        case Mapping():
            return {str(name): _plain(member) for name, member in value.items()}
    return [_plain(element) for element in value]
