"""The tour of README.md, step by step on a running broker."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINES = b"".join(b"2024-11-20 10:%02d:00 line %d of the file\n" % (number % 60, number) for number in range(500))


def _run(kind: str, block: str, directory: Path) -> str:
    if kind == "python":
        command = [sys.executable, "-c", block]
    else:
        command = ["sh", "-ec", "\n".join(re.findall(r"^\$ (.*)$", block, re.MULTILINE))]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.skipif(shutil.which("kcat") is None, reason="the tour uses kcat")
def test_the_tour(tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    assert [kind for kind, _ in blocks] == ["console", "console", *["python"] * 5]
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
    assert shown[4] == "True False\n"
    assert shown[5] == "0\nb'hello'\n"
