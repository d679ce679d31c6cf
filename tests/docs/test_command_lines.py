"""Lines of the pages that begin with `pylogbroker` are ones that the command accepts."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from pylogbroker.cli import main
from tests.docs.page_programs import ROOT

PAGES = (
    "security.md",
    "cluster.md",
    "command-line.md",
    "consumer-groups.md",
    "mirror.md",
    "mirror-groups.md",
    "schema-registry.md",
    "tables.md",
)
LINE = re.compile(r"^    (?:.*\| )?pylogbroker ((?:.*\\\n)*.*)$", re.MULTILINE)


def parsed(words: list[str]) -> None:
    """Parse a line without running it; raise UsageError."""
    command: click.Command = main
    context = click.Context(main, info_name="pylogbroker")
    while isinstance(command, click.Group) and not (command.invoke_without_command and words[0].startswith("-")):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command, context = found, click.Context(found, parent=context, info_name=found.name)
    if "start" not in str(context.command_path):  # whose options are those of twistd
        command.make_parser(context).parse_args(words)


@pytest.mark.parametrize("page", PAGES)
def test_lines_of_a_page(page: str) -> None:
    lines = LINE.findall((ROOT / "docs" / page).read_text("utf-8"))
    assert lines
    for line in lines:
        parsed(shlex.split(line.replace("\\\n", " ").partition(" | ")[0].partition(" > ")[0], comments=True))
