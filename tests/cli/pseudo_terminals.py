"""Pseudo terminals on which commands run."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 120.0
READS_MAX = 2000
RESTORED = "\x1b[?25h\x1b[?1049l"
"""Sequences that leave the screen of `top`."""


class Terminal:
    """A pseudo terminal that controls the command: Ctrl-C is a key."""

    def __init__(self, *arguments: str) -> None:
        self._ours, self._its = pty.openpty()
        self.attributes = termios.tcgetattr(self._its)
        self.shown = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pylogbroker.cli", *arguments],
            stdin=self._its,
            stdout=self._its,
            stderr=self._its,
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "100", "LINES": "30", "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def expect(self, text: str) -> None:
        for _ in range(READS_MAX):
            if text in self.shown:
                break
            assert select.select([self._ours], [], [], SECONDS_MAX)[0], self.shown
            self.shown += os.read(self._ours, 65_536).decode(errors="replace")
        assert text in self.shown
        self.shown = self.shown.partition(text)[2]

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def check_restored(self, last: str = RESTORED) -> None:
        self.expect(last)
        self.process.wait(SECONDS_MAX)
        assert termios.tcgetattr(self._its) == self.attributes

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._its)
