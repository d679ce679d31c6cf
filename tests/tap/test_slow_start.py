"""A start by twistd takes no pauses, however long its reads are: the reactor does not run yet."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pylogbroker.cli import main
from tests.support.line_process import LineProcess

ROOT = Path(__file__).resolve().parents[2]
CODE = """
from pylogbroker.tap import lifecycle
from twisted.scripts.twistd import run

lifecycle.SLICE_SECONDS = -1.0  # each slice is over at once
run()
"""


@pytest.mark.process
def test_users_are_read_without_a_pause(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    added = CliRunner().invoke(main, ["user", "add", "admin", "--data-dir", str(data)], input="secret\n")
    assert added.exit_code == 0, added.output
    options = ["--nodaemon", "--pidfile=", "pylogbroker", "--data-dir", str(data)]
    arguments = [sys.executable, "-c", CODE, *options, "--listener", "SASL_PLAINTEXT://127.0.0.1:0"]
    with LineProcess(arguments, cwd=ROOT) as broker:
        broker.expect(r"listening on SASL_PLAINTEXT://127\.0\.0\.1:\d+")
