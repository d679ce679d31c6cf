"""Find out whether a broker in a process kept its reactor from its connections for too long.

    process = BrokerProcess(directory, {**watching(budget), ...})
    ...
    assert stalls(process, budget) == []
    check_stalls(process, budget, work)             # or so: does the work, and again if there were stalls

The broker's own watch measures processor time, so that other processes do not count. A slow processor is allowed for,
also one that has become slow since the start. Other tests and other virtual machines share caches and processors with
the broker, which makes single iterations more than twice as long: 50 ms are allowed. The goal, 20 ms, holds in a
thorough run. A virtual machine that is paused counts the pause as processor time of the process that runs, but no such
pause comes each time.

Full garbage collections do not count. A broker runs them when it is idle, or looks idle because other processes keep it
from the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tests.support.broker_process import BrokerProcess
from tests.support.budget import Budget

#: Text in the log line about a stall.
STALL = "other connections wait: the reactor has been busy"
COLLECTION = "tap/garbage_collection.py"

#: Processor time of one iteration of the reactor, on a machine where the work below takes `REFERENCE_SECONDS`.
LIMIT_MS = 20
SHARED_LIMIT_MS = 50
REFERENCE_SECONDS = 0.010
ATTEMPTS = 3


def watching(budget: Budget) -> Mapping[str, str]:
    """Return the setting with which a broker logs stalls of more than the limit."""
    return {"reactor.stall.warn.ms": str(round(_limit_ms(budget)))}


def stalls(process: BrokerProcess, budget: Budget, since: int = 0) -> list[str]:
    """Return the stalls that the broker has logged since its start, or since a line of its log."""
    found = [line for line in process.process.lines[since:] if STALL in line and COLLECTION not in line]
    limit_ms = _limit_ms(budget) if found else 0.0
    return [line for line in found if int(line.split(STALL)[1].split()[1]) > limit_ms]


def check_stalls(process: BrokerProcess, budget: Budget, work: Callable[[int], object]) -> None:
    """Call `work` with the number of the attempt, until one has no stalls; fail if each has some."""
    found = []
    for attempt in range(ATTEMPTS):
        since = len(process.process.lines)
        work(attempt)
        found = stalls(process, budget, since)
        if not found:
            return
    raise AssertionError(found)


def _limit_ms(budget: Budget) -> float:
    """Return the limit on this machine now."""
    return budget.of(SHARED_LIMIT_MS, LIMIT_MS) * max(1.0, _work_seconds() / REFERENCE_SECONDS)


def _work_seconds() -> float:
    """The processor time of some work in Python: the best of several tries."""
    return min(_timed_work() for _ in range(5))


def _timed_work() -> float:
    start = time.thread_time()
    found = {}
    for number in range(50_000):
        found[str(number)] = number
    return time.thread_time() - start
