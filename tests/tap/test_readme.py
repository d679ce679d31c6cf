"""The tour of README.md, step by step on a running broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.web.recording import ADDRESS, readme_commands, write_command

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINES = b"".join(b"2024-11-20 10:%02d:00 line %d of the file\n" % (number % 60, number) for number in range(500))


def _run(kind: str, block: str, directory: Path) -> str:
    if kind == "python":
        command = [sys.executable, "-c", block]
    else:
        command = ["sh", "-ec", "\n".join(re.findall(r"^\$ (.*)$", block, re.MULTILINE))]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.skipif(shutil.which("kcat") is None, reason="the tour uses kcat")
def test_the_tour(tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    assert [kind for kind, _ in blocks] == ["console", "console", *["python"] * 4]
    (tmp_path / "lines.log").write_bytes(LINES)  # what the first step would copy
    broker = BrokerProcess(tmp_path / "broker")
    broker.start()
    try:
        shown = [_run(kind, block.replace("127.0.0.1:9092", broker.bootstrap), tmp_path) for kind, block in blocks[1:]]
    finally:
        broker.stop()
    assert shown[0] == "the same bytes\n"
    assert re.fullmatch(r"500 records, the first at \d{13} ms: b'2024-11-20 10:00:00 line 0 of the file'\n", shown[1])
    assert shown[2] == "500 b'one more line' [('from', b'python')]\n"
    assert shown[3] == "['__consumer_offsets', 'lines', 'short']\n"
    assert shown[4] == "False\n"


def test_the_commands(tmp_path: Path) -> None:
    """The indented block about the command is one program of the shell; its one question gets a yes."""
    commands = readme_commands()
    assert sum("pylogbroker " in command for command in commands) == 6
    write_command(tmp_path)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    broker = BrokerProcess(tmp_path / "broker")
    broker.start()
    try:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", "\n".join(commands).replace(ADDRESS, broker.bootstrap)],
            cwd=tmp_path,
            env=environment,
            input="y\n",
            capture_output=True,
            text=True,
            timeout=180,
        )
    finally:
        broker.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    read = [line for line in done.stdout.splitlines() if re.fullmatch(r"[012]/\d customer-\d: bought", line)]
    assert len(read) > 5  # five in the group, and the last ones of each partition
    lag, reset = re.findall(r"^group.*\n((?:readers .*\n)+)", done.stdout, re.MULTILINE)
    assert sum(int(line.split()[5]) for line in lag.splitlines()) == 3
    assert sum(int(line.split()[5]) for line in reset.splitlines()) == 8
