"""Iterations of a broker's reactor: how long each took, and what for.

An iteration handles the events of one look for them, and ends with the next look. Its time has three parts:

    work         processor time of the reactor's thread
    processor    time in the queue for a processor, which other threads and processes use
    other        the rest: another thread holds the interpreter, or a call blocks

Linux counts them for each thread, so that they are also meaningful on a machine with other work.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from benchmarks.brokers import TWISTD
from pylogbroker.net.poller import EagerPoller, Events

NOTED_SECONDS = 0.001
"""Shorter iterations are not recorded."""


@attrs.frozen
class Iteration:
    begin: float
    seconds: float
    work: float
    processor: float

    @property
    def other(self) -> float:
        return max(self.seconds - self.work - self.processor, 0.0)


def program(path: Path) -> str:
    """Return the Python code of a broker that records the iterations of its reactor in a file."""
    return f"from benchmarks.iterations import record; record({str(path)!r}); {TWISTD}"


def record(path: str) -> None:
    """Let the reactor of this process write its long iterations to a file, each as a line of four numbers."""
    poll, file = EagerPoller.poll, open(path, "w", buffering=1)  # noqa: SIM115  (for the life of the process)
    last: list[tuple[float, float, float]] = []
    schedstat: list[int] = []

    def spent() -> tuple[float, float, float]:
        if not schedstat:
            name = f"/proc/self/task/{threading.get_native_id()}/schedstat"
            schedstat.append(os.open(name, os.O_RDONLY | os.O_CLOEXEC))
        work, processor = os.pread(schedstat[0], 100, 0).split()[:2]
        return time.perf_counter(), int(work) / 1e9, int(processor) / 1e9

    def recorded(poller: EagerPoller, timeout: float = -1, maxevents: int = -1) -> Events:
        if last and time.perf_counter() - last[0][0] >= NOTED_SECONDS:
            begin, now = last[0], spent()
            print(begin[0], *(after - before for before, after in zip(begin, now, strict=True)), file=file)
        events = poll(poller, timeout, maxevents)
        last[:] = [spent()]
        return events

    EagerPoller.poll = recorded  # type: ignore[method-assign]


def iterations(path: Path) -> Sequence[Iteration]:
    return tuple(_read(path))


def _read(path: Path) -> Iterator[Iteration]:
    for line in path.read_text().splitlines():
        numbers = line.split()
        if len(numbers) == 4:  # the last line may be incomplete
            yield Iteration(*map(float, numbers))
