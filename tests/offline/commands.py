"""The `pylogbroker` command, called in this process."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from pylogbroker.cli import main

ROOT = Path(__file__).resolve().parents[2]


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


def on_a_terminal(*arguments: str | Path) -> str:
    """Run the command in a process whose standard error is a terminal; return what that shows."""
    command = [sys.executable, "-m", "pylogbroker.cli", *map(str, arguments)]
    master, slave = pty.openpty()
    shown = b""
    try:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave, cwd=ROOT) as process:
            os.close(slave)
            while block := _read(master):
                shown += block
    finally:
        os.close(master)
    assert process.returncode == 0, shown
    return shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the process has ended
        return b""
