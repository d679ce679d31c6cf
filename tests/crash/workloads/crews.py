"""Copiers, kept running: each is a process that is killed at random, and started again under the same name."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.crash.copiers import STAGES, Orders
from tests.crash.workloads import World
from tests.peers.java import Program
from tests.support.broker_process import ROOT
from tests.support.line_process import LineProcess, ProcessFailed

Command = Callable[[Orders], Sequence[str]]
_JAVA: Final = Path(__file__).parents[1] / "copiers" / "Copier.java"
_AT_ONCE: Final = ""  # instead of a stage
_SOON: Final = 0.02  # seconds behind a line within which a copier is killed
_PATIENCE: Final = 30.0  # seconds for its end
_FENCED: Final = 1  # its exit status


def librdkafka(orders: Orders) -> list[str]:
    """The copier with confluent-kafka."""
    return [sys.executable, "-m", "tests.crash.copiers.copier", *orders.arguments()]


def java_3(orders: Orders) -> list[str]:
    """The one with Kafka's Java client of release 3.9."""
    return Program(_JAVA, "clients-3.9").command(*orders.arguments())


def java_4(orders: Orders) -> list[str]:
    """The one with Kafka's Java client of release 4."""
    return Program(_JAVA, "clients-4").command(*orders.arguments())


@attrs.frozen
class Crew:
    """The copiers of one group."""

    name: str
    commands: Sequence[Command]
    life_seconds: float = 4.0  # of a copier, in the mean


CREWS: Final = (
    Crew("librdkafka", (librdkafka, librdkafka, librdkafka)),
    Crew("java", (java_3, java_4, java_4), life_seconds=7.0),
)


class Keeper:
    """One copier, in one process after the other."""

    def __init__(self, command: Sequence[str], life_seconds: float, world: World) -> None:
        self._command, self._life_seconds, self._world = command, life_seconds, world
        self._chance = random.Random(world.chance.random())
        self.calm = threading.Event()  # it is not killed any more
        self.ending = threading.Event()
        self.told: Counter[str] = Counter()  # its lines, by their first words
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
        """From the start of a process to its end."""
        stage = self._chance.choice([*STAGES, _AT_ONCE])
        with LineProcess(self._command, cwd=ROOT) as process:
            killed = self._follow(process, stage, time.monotonic() + self._chance.expovariate(1 / self._life_seconds))
            if killed:
                process.signal(signal.SIGKILL)
                self._world.met("copier")
                self.killed_at[stage or "any"] += 1
            status = process.wait(_PATIENCE)
            self.last_lines = process.lines[-20:]
            if status != (-signal.SIGKILL if killed else 0 if self.ending.is_set() else _FENCED):
                self.problem = f"it ended with {status}:\n" + "\n".join(self.last_lines)
                self.ending.set()

    def _follow(self, process: LineProcess, stage: str, until: float) -> bool:
        """Read what it says until it is to be killed (true), or ends."""
        while process.running:
            word = self._next_word(process)
            if word:
                self.told[word] += 1
                self._tell(word)
            if self.ending.is_set():
                process.send("end")
                return False
            if time.monotonic() > until and word == stage and not self.calm.is_set():
                time.sleep(self._chance.uniform(0, _SOON))
                return True
        return False

    def _next_word(self, process: LineProcess) -> str:
        """The first one of the next line; none if none comes soon."""
        try:
            return process.expect(r"^\w*", timeout=0.1)[0]
        except ProcessFailed:
            return ""

    def _tell(self, word: str) -> None:
        if event := {"sent": "ack", "offsets": "ending", "committed": "commit"}.get(word):
            self._world.met(event)
