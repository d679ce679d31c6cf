"""Kafka's own producer as a sender: a JVM that is given records by lines, and answers by lines."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import Final

from tests.crash.history import Promise
from tests.crash.stamps import Stamp, value_of
from tests.crash.workloads.senders import Delivered
from tests.peers.java import Program
from tests.support.broker_process import ROOT
from tests.support.line_process import LineProcess, ProcessFailed

_PROGRAM: Final = Program(Path(__file__).parent / "JavaSender.java", "clients-4", log_level="error")
_ANSWER: Final = r"^(acknowledged|failed) (\d+) (.*)"
_START_SECONDS_MAX: Final = 120.0
_ANSWER_SECONDS_MAX: Final = 600.0


class java:  # noqa: N801  (named as the client)
    """Kafka's Java client."""

    def __init__(self, bootstrap: str, promise: Promise, acks: str, codec: str) -> None:
        is_idempotent = str(promise is Promise.ONCE).lower()
        self._process = LineProcess(_PROGRAM.command(bootstrap, acks, codec, is_idempotent), cwd=ROOT)
        self._process.expect("^started", _START_SECONDS_MAX)
        self._numbers = itertools.count()
        self._open: dict[int, Delivered] = {}
        self._reader = threading.Thread(target=self._read_answers, name="answers of Java", daemon=True)
        self._reader.start()

    def send(self, stamp: Stamp, filling: str, delivered: Delivered) -> None:
        number = next(self._numbers)
        self._open[number] = delivered
        value = value_of(stamp, filling).decode()
        self._process.send(f"{number} {stamp.topic} {stamp.partition} {stamp.sequence} {value}")

    def _read_answers(self) -> None:
        """Report what became of each record, until the process ends."""
        while True:
            try:
                word, number, rest = self._process.expect(_ANSWER, _ANSWER_SECONDS_MAX).groups()
            except ProcessFailed:
                return
            delivered = self._open.pop(int(number))
            delivered(int(rest), "") if word == "acknowledged" else delivered(None, rest)

    def work(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self, seconds: float) -> None:
        self._process.close_input()
        self._reader.join(seconds)
        self._process.kill()
