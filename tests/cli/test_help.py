"""The help of `pylogbroker`: its commands by use."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from click.testing import CliRunner

from pylogbroker import cli
from pylogbroker.cli import main

FOLDER = Path(cli.__file__).parent


def test_each_command_is_in_one_section() -> None:
    modules = sorted(file.stem for file in FOLDER.glob("*.py") if re.search(r"^def command\(", file.read_text(), re.M))
    sections = CliRunner().invoke(main, ["--help"]).output.partition("\nA broker:\n")[2]
    assert sorted(re.findall(r"^  ([a-z]+)  ", sections, re.MULTILINE)) == modules


def test_the_text_of_a_command_is_its_own() -> None:
    """A shell's completion shows the command's own text, and the help that of a table, which imports no command."""
    for commands in cli._SECTIONS.values():
        for name, text in commands.items():
            command = import_module(f"pylogbroker.cli.{name}").command
            assert command.short_help in (None, text), name


def test_all_descriptions_stand_below_each_other() -> None:
    lines = CliRunner().invoke(main, ["--help"]).output.splitlines()
    rows = [line for line in lines if re.match(r"  [a-z]+  +[A-Z]", line)]
    assert len({len(re.match(r"  [a-z]+ +", row)[0]) for row in rows}) == 1  # type: ignore[index]


def test_options_of_a_cluster_are_described() -> None:
    described = CliRunner().invoke(main, ["topic", "list", "--help"]).output
    assert re.search(r"--timeout SECONDS +Time to try while brokers do not answer", described)
