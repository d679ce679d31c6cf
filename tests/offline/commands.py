"""The `pylogbroker` command, called in this process."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from pylogbroker.cli import main


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


def succeed(*arguments: str | Path) -> str:
    """Return the output of the command; raise an error if it fails."""
    done = run(*arguments)
    assert (done.exit_code, done.exception) == (0, None), done.output
    return done.output


def fail(*arguments: str | Path) -> str:
    """The one line with which the command fails."""
    done = run(*arguments)
    assert done.exit_code == 1, done.output
    line = done.output.splitlines()[-1]
    assert line.startswith("Error: ")
    return line
