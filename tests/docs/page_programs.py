"""Runs what a page of the documentation shows.

A block of Python is a program. It is run in a process of its own, with the address of a broker for that in the page,
and must succeed and say nothing on standard error. A block of text behind it is what it prints, exactly.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1:9092"
BLOCK = re.compile(r"^```python\n(?P<program>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?", re.DOTALL | re.MULTILINE)
#: Seconds for a program, on a machine that may stand still meanwhile.
LIMIT = 600
#: Time limits that are short enough to read are too short for such a machine.
LONGER = {'"consumer.timeout.ms": 1000': '"consumer.timeout.ms": 6000', "timeout=10)": "timeout=200)"}


@attrs.frozen
class Program:
    """One block, and what is said to be its output."""

    text: str
    output: str | None

    def run(self, bootstrap: str, directory: Path) -> str:
        """Return its output; raise an error if it fails."""
        host, _, port = bootstrap.rpartition(":")
        text = self.text.replace(ADDRESS, bootstrap).replace('"127.0.0.1", 9092', f'"{host}", {port}')
        for short, longer in LONGER.items():
            text = text.replace(short, longer)
        command = [
            sys.executable,
            "-W",
            "ignore:.*fork:DeprecationWarning",
            "-c",
            text,
        ]  # newer Pythons warn of it
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=LIMIT)
        assert (done.returncode, done.stderr) == (0, ""), f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout


def programs(page: Path) -> list[Program]:
    """All of a page's programs."""
    return [Program(found["program"], found["output"]) for found in BLOCK.finditer(page.read_text())]
