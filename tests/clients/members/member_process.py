"""Start members of any client library, and see what they do."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.clients.adapters.java import program
from tests.clients.members.base import UNIFORM
from tests.clients.model import Rec, from_row
from tests.support.broker_process import ROOT
from tests.support.line_process import LineProcess, ProcessFailed

JAVA_ASSIGNORS = {
    UNIFORM: UNIFORM,
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
SESSION_MS = 10_000
KCAT_ASSIGNED = ": assigned: "
_OUTPUT = threading.Condition()


class Member:
    """One process; `kind` is the name of its client library."""

    def __init__(
        self,
        kind: str,
        bootstrap: str,
        group: str,
        topic: str,
        *,
        session_ms: int = SESSION_MS,
        instance: str = "-",
        assignor: str = "range",
    ) -> None:
        self.kind = kind
        values = (bootstrap, group, topic, str(session_ms), instance, assignor)
        self.process = LineProcess(_command(kind, values), cwd=ROOT, changed=_OUTPUT, forked=True)
        self.assignments = 0
        self.partitions: list[int] = []
        self.records: list[Rec] = []
        self._read = 0

    def __repr__(self) -> str:
        return f"{self.kind} with {self.partitions}, {len(self.records)} records"

    @property
    def values(self) -> list[str]:
        return sorted((record.value or b"").decode() for record in self.records)

    def update(self) -> None:
        """Take in what it has printed."""
        lines = self.process.lines
        for line in lines[self._read :]:
            self._take_in(line)
        self._read = len(lines)

    def commit(self, metadata: str = "") -> None:
        if self.kind != "kcat":  # which commits of itself when partitions are taken from it, and at its end
            self.process.send(f"commit {metadata}")
            self.process.expect("^committed")

    def leave(self) -> None:
        """Leave the group in order."""
        if self.kind == "kcat":
            self.process.terminate()
        else:
            self.process.send("close")
            self.process.expect("^closed")
            self.process.wait()

    def crash(self) -> None:
        self.process.signal(signal.SIGKILL)
        self.process.wait()

    def _take_in(self, line: str) -> None:
        name, *fields = line.split("\t")
        if name == "assigned":
            self._assigned(fields[0].split(","))
        elif name == "record":
            self.records.append(from_row(fields))
        elif name == "kcat":
            partition, offset, timestamp, value = fields
            self.records.append(Rec(value.encode(), None, (), int(timestamp), int(partition), int(offset)))
        elif self.kind == "kcat" and KCAT_ASSIGNED in line:
            listed = line.partition(KCAT_ASSIGNED)[2].split(",")  # "topic [0], topic [1]"
            self._assigned([each.partition("[")[2].rstrip("]") for each in listed])

    def _assigned(self, partitions: list[str]) -> None:
        self.partitions = sorted(int(each) for each in partitions if each)
        self.assignments += 1


def until(members: Sequence[Member], condition: Callable[[], bool], timeout: float = 120) -> None:
    """Wait until what the members have printed fulfils a condition."""
    deadline = time.monotonic() + timeout
    with _OUTPUT:
        while True:
            for each in members:
                each.update()
            if condition():
                return
            if ended := [each for each in members if not each.process.running]:
                raise ProcessFailed(f"{ended} ended:\n" + "\n".join(ended[0].process.lines[-40:]))
            if time.monotonic() > deadline:
                raise ProcessFailed(f"not within {timeout} s; the members: {members}")
            _OUTPUT.wait(1)


def until_shared(members: Sequence[Member], partitions: int) -> None:
    """Wait until every partition belongs to exactly one member, and every member has its fair share."""

    def shared() -> bool:
        held = sorted(partition for each in members for partition in each.partitions)
        sizes = [len(each.partitions) for each in members]
        return held == list(range(partitions)) and max(sizes) - min(sizes) <= 1

    until(members, shared)


def _command(kind: str, values: Sequence[str]) -> list[str | Path]:
    *most, assignor = values
    if kind.startswith("java-"):
        return [*program("Member", kind.removeprefix("java-")).command(*most, JAVA_ASSIGNORS[assignor])]
    if kind == "kcat":
        return _kcat(*values)
    module = f"tests.clients.members.{kind.replace('-', '_')}_member"
    return [sys.executable, "-m", module, *values]


def _kcat(bootstrap: str, group: str, topic: str, session_ms: str, instance: str, assignor: str) -> list[str | Path]:
    settings = {
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": "200",
        "partition.assignment.strategy": assignor,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": "50",
    }
    options = [text for name, value in settings.items() for text in ("-X", f"{name}={value}")]
    return ["kcat", "-b", bootstrap, "-u", *options, "-f", r"kcat\t%p\t%o\t%T\t%s\n", "-G", group, topic]
