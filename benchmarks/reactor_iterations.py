"""Iterations of a reactor of Twisted in another process: how much processor time each took.

An iteration handles the events of one look for them, and ends with the next look. While it lasts, other connections
wait. Its processor time is meaningful on a machine with other work, too.
"""

import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

NOTED_SECONDS = 0.002
"""Shorter iterations are not recorded."""


def program(path: Path, work: str) -> str:
    """Return the Python code of a process that does some work, and records the iterations of its reactor in a file."""
    return f"from benchmarks.reactor_iterations import record; record({str(path)!r}); {work}"


def record(path: str) -> None:
    """Let the reactor of this process write its long iterations to a file: when each ended, and its processor time."""
    from twisted.internet import reactor

    any_reactor: Any = reactor
    any_reactor._poller = _NotingPoller(any_reactor._poller, path)


class _NotingPoller:
    def __init__(self, poller: Any, path: str) -> None:
        self._poller = poller
        self._file = open(path, "w", buffering=1)  # noqa: SIM115  (for the life of the process)
        self._begin = inf  # until the first look: imports come before it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)

    def poll(self, *arguments: Any) -> Any:
        seconds = time.thread_time() - self._begin
        if seconds >= NOTED_SECONDS:
            print(time.monotonic(), seconds, file=self._file)
        events = self._poller.poll(*arguments)
        self._begin = time.thread_time()
        return events


def long_iterations(path: Path, begin: float, end: float) -> Iterator[float]:
    """Yield the processor time of each long iteration between two times of `time.monotonic`."""
    for line in path.read_text().splitlines():
        numbers = line.split()
        if len(numbers) == 2 and begin <= float(numbers[0]) <= end:  # the last line may be incomplete
            yield float(numbers[1])
