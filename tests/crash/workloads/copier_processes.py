"""Copiers, kept running: each is a process that is killed at random, and started again under the same name."""

from __future__ import annotations

import math
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from tests.crash.copiers import FENCED_STATUS, FIRST_STAGES, IN_TRANSACTION, STAGES, Orders
from tests.crash.workloads import RunContext
from tests.peers.java import Program
from tests.support.broker_process import ROOT
from tests.support.line_process import LineProcess, ProcessFailed

Command = Callable[[Orders], Sequence[str]]
_JAVA: Final = Path(__file__).parents[1] / "copiers" / "Copier.java"
AT_ONCE: Final = "at once"  # instead of a stage
_LONGEST: Final = 4.0  # seconds that a stage is waited for, after the first kill
_SOON: Final = 0.02  # seconds behind a line within which a copier is killed
_SILENT_SECONDS_MAX: Final = 20.0
_LINE: Final = 120  # characters of a reason
_WAIT_SECONDS_MAX: Final = 120.0  # seconds for its end


def librdkafka(orders: Orders) -> list[str]:
    """The copier with confluent-kafka."""
    return [sys.executable, "-m", "tests.crash.copiers.copier", *orders.arguments()]


def java_3(orders: Orders) -> list[str]:
    """The one with Kafka's Java client of release 3.9."""
    return Program(_JAVA, "clients-3.9").command(*orders.arguments())


def java_4(orders: Orders) -> list[str]:
    """The one with Kafka's Java client of release 4."""
    return Program(_JAVA, "clients-4").command(*orders.arguments())


CLIENTS_OF_V2: Final[Sequence[Command]] = (java_4,)
"""Clients that use transactions v2 if brokers offer them."""


@attrs.frozen
class CopierProgram:
    """The copiers of one group."""

    name: str
    commands: Sequence[Command]
    life_seconds: float = 1.5  # of a copier, in the mean
    ends: Sequence[str] = (*STAGES, *IN_TRANSACTION, AT_ONCE)  # at which stages they are killed, by equal chances


COPIER_PROGRAMS: Final = (
    CopierProgram("librdkafka", (librdkafka, librdkafka, librdkafka)),
    CopierProgram("java", (java_3, java_4, java_4), life_seconds=4.0),
)


class CopierKeeper:
    """One copier, in one process after the other."""

    def __init__(self, command: Sequence[str], life_seconds: float, ends: Sequence[str], context: RunContext) -> None:
        self._command, self._life_seconds, self._ends, self._world = command, life_seconds, ends, context
        self._chance = random.Random(context.chance.random())
        self.calm = threading.Event()  # it is not killed any more, after the first time
        self.ending = threading.Event()
        self.reported: Counter[str] = Counter()  # its lines, by their first words
        self.reasons: Counter[str] = Counter()  # of its aborting, or of its end
        self.killed_at: Counter[str] = Counter()
        self.problem = ""
        self.last_lines: list[str] = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while not self.ending.is_set():
                self._live()
        except Exception as error:
            self.problem = "".join(traceback.format_exception(error))

    def _live(self) -> None:
        """Follow a process from its start to its end."""
        with LineProcess(self._command, cwd=ROOT, forked=True) as process:
            killed_at = self._follow(process)
            if killed_at is not None:
                process.signal(signal.SIGKILL)
                self._world.met("copier")
            status = process.wait(_WAIT_SECONDS_MAX)
            self.last_lines = process.lines[-20:]
            if killed_at is not None and status == -signal.SIGKILL:
                self.killed_at[killed_at] += 1
            elif status not in ({FENCED_STATUS, 0} if self.ending.is_set() else {FENCED_STATUS}):  # before the signal
                self.problem = f"it ended with {status}:\n" + "\n".join(self.last_lines)
                self.ending.set()

    def _follow(self, process: LineProcess) -> str | None:
        """Read what it says until it ends, or is to be killed: where in its work.

        Until a copier has been killed, its life ends in its first transaction, calm or not, so that short runs kill
        each copier.  One that is silent for long is killed too: librdkafka may wait for ever for a group's coordinator
        that has died.
        """
        is_first = not self.killed_at
        wanted = IN_TRANSACTION[0] if is_first else self._chance.choice(self._ends)
        longest = math.inf if is_first else _LONGEST
        at_first_chance = is_first or wanted in FIRST_STAGES
        seconds = 0.0 if at_first_chance else self._chance.expovariate(1 / self._life_seconds)
        since = time.monotonic() + seconds
        heard = time.monotonic()
        while process.running:
            word = self._obey(self._next_line(process))
            heard = time.monotonic() if word else heard
            if self.ending.is_set():
                with suppress(BrokenPipeError):
                    process.send("end")
                return None
            if time.monotonic() - heard > _SILENT_SECONDS_MAX:
                return AT_ONCE
            late = time.monotonic() - since
            if (is_first or not self.calm.is_set()) and late > 0 and (wanted in (word, AT_ONCE) or late > longest):
                time.sleep(self._chance.choice((0, self._chance.uniform(0, _SOON))))
                return wanted if word == wanted else AT_ONCE
        return None

    def _next_line(self, process: LineProcess) -> str:
        """Return its next line, or nothing after a timeout."""
        try:
            return process.expect("^.*", timeout=0.1)[0]
        except ProcessFailed:
            return ""

    def _obey(self, line: str) -> str:
        """Note the content of a line; return its first word."""
        word = line.partition(" ")[0]
        if word:
            self.reported[word] += 1
        if word in ("aborted", "fenced"):
            self.reasons[line[:_LINE]] += 1
        if event := {"sent": "ack", "committing": "ending", "committed": "commit"}.get(word):
            self._world.met(event)
        return word
