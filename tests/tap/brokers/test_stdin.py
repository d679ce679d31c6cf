"""Processes that end with their supervisor, in whatever state they are."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys, time
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from pylogbroker.tap.brokers import stdin

stdin._STOP_SECONDS = {seconds}
stdin.stop_with_stdin(reactor)
def ready():
    reactor.addSystemEventTrigger("before", "shutdown", {at_the_end})
    {first}
    print("ready", flush=True)
reactor.callWhenRunning(lambda: reactor.callLater(0, ready))
reactor.run()
{after}
"""
NEVER = "lambda: (print('stops', flush=True), Deferred())[1]"
AT_ONCE = "lambda: print('stops', flush=True)"


@pytest.mark.parametrize(
    ("at_the_end", "first", "after", "status"),
    [
        pytest.param(AT_ONCE, "pass", "", 0, id="it stops at once"),
        pytest.param(NEVER, "pass", "", -signal.SIGALRM, id="it never stops"),
        pytest.param(NEVER, "reactor.stop()", "", -signal.SIGALRM, id="it stops already"),
        pytest.param(AT_ONCE, "pass", "time.sleep(100)", -signal.SIGALRM, id="its reactor has ended"),
    ],
)
def test_a_process_ends_when_its_standard_input_does(at_the_end: str, first: str, after: str, status: int) -> None:
    seconds = 0.2 if status else 60
    program = PROGRAM.format(at_the_end=at_the_end, first=first, after=after, seconds=seconds)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        while process.stdout.readline() != "ready\n":
            pass
        process.stdin.close()
        try:
            assert process.wait(60) == status
        finally:
            process.kill()
