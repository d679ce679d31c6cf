"""Child processes of the tests start with default signal dispositions, however the tests were started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SIGNALS = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1")

CHILD = f"""
import signal
ignored = [name for name in {SIGNALS} if signal.getsignal(getattr(signal, name)) is signal.SIG_IGN]
print("ignored:", *ignored)
"""

AS_UNDER_NOHUP = f"""
import signal, sys
for name in {SIGNALS}:
    signal.signal(getattr(signal, name), signal.SIG_IGN)
import tests.conftest
from tests.support.line_process import LineProcess
with LineProcess([sys.executable, "-c", {CHILD!r}]) as child:
    print(child.expect("^ignored:").string)
signal.raise_signal(signal.SIGHUP)
print("hangups do not end the tests")
"""


def test_children_do_not_inherit_ignored_signals() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_UNDER_NOHUP], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "ignored:\nhangups do not end the tests\n"
