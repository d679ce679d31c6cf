"""Garbage collection of the processes that mirror: imported objects are frozen when the reactor runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FROZEN_MIN = 50_000
SEEN = """
import gc, sys
from twisted.internet import reactor

def see():
    print(gc.get_freeze_count(), gc.get_threshold()[0], file=sys.__stdout__, flush=True)
    reactor.stop()

reactor.callWhenRunning(reactor.callLater, 0, see)
"""
COMMAND = "from pylogbroker.cli import main; main(['mirror', '--from', '127.0.0.1:1', '--to', '127.0.0.1:1', '-q'])"
TWISTD = "from twisted.scripts.twistd import run; sys.argv[1:] = ['-n', '--pidfile=', '-l', '{log}', {words}]; run()"


@pytest.mark.parametrize("program", ["command", "twistd"])
def test_imported_objects_are_not_examined_while_the_mirror_runs(program: str, tmp_path: Path) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text("clusters=a,b\na.bootstrap.servers=127.0.0.1:1\nb.bootstrap.servers=127.0.0.1:1\na->b.enabled=true")
    words = f"'pylogbroker-mirror', '--config', '{file}'"
    work = COMMAND if program == "command" else TWISTD.format(log=tmp_path / "log", words=words)
    done = subprocess.run([sys.executable, "-c", SEEN + work], capture_output=True, text=True, timeout=120)
    frozen, threshold = map(int, done.stdout.split()) if done.stdout else pytest.fail(done.stderr)
    assert frozen > FROZEN_MIN
    assert threshold == 2000
