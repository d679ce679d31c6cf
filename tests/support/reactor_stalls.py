"""Whether a broker in a process kept its reactor from its connections for too long.

    process = BrokerProcess(directory, {**watching(), ...})
    ...
    assert stalls(process) == []

The broker's own watch measures processor time, so that other processes do not count. A slow processor is allowed for,
also one that has become slow since the start, as virtual ones do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from tests.support.broker_process import BrokerProcess

#: Text in the log line about a stall.
STALL = "other connections wait: the reactor has been busy"

#: Processor time of one iteration of the reactor, on a machine where the work below takes `REFERENCE_SECONDS`.
LIMIT_MS = 20
REFERENCE_SECONDS = 0.010


def watching() -> Mapping[str, str]:
    """Return the setting with which a broker logs stalls of more than `LIMIT_MS`."""
    return {"reactor.stall.warn.ms": str(round(_limit_ms()))}


def stalls(process: BrokerProcess) -> list[str]:
    """Return the stalls that the broker has logged since its start."""
    found = [line for line in process.process.lines if STALL in line]
    limit_ms = _limit_ms() if found else 0.0
    return [line for line in found if int(line.split(STALL)[1].split()[1]) > limit_ms]


def _limit_ms() -> float:
    """Return the limit on this machine now."""
    return LIMIT_MS * max(1.0, _work_seconds() / REFERENCE_SECONDS)


def _work_seconds() -> float:
    """The processor time of some work in Python: the best of several tries."""
    return min(_timed_work() for _ in range(5))


def _timed_work() -> float:
    start = time.thread_time()
    found = {}
    for number in range(50_000):
        found[str(number)] = number
    return time.thread_time() - start
