"""Workloads: clients at work while the broker is killed, each with topics of its own.

    producing    producers of several clients, with every codec and guarantee
    consuming    groups that read what those write, and commit
    compacting   writers of keyed records to a compacted topic
    copying      copiers that do both in transactions, and are killed themselves (`copier_processes`)

Records in the history of the run are checked for all workloads (`log_checker`). A workload reports other violations
itself. A new one is a class with the methods of `Workload`, and a line in `__main__`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import attrs

from tests.crash.checks import Violation
from tests.crash.history import History, Partition
from tests.crash.reader import Reader

T = TypeVar("T")
_WAIT_SECONDS_MAX: Final = 120.0


@attrs.frozen
class Topic:
    """A topic that a workload wants to have."""

    name: str
    partitions: int
    configs: Mapping[str, str] = attrs.field(factory=dict)
    judged: bool = True  # stamped records only, and nothing is ever deleted: read and judged after every start

    @property
    def partition_keys(self) -> list[Partition]:
        return [(self.name, index) for index in range(self.partitions)]

    @property
    def is_archived(self) -> bool:
        return self.configs.get("remote.storage.enable") == "true"


@attrs.frozen
class RunContext:
    """Context of a workload."""

    bootstrap: str
    history: History
    reader: Reader
    chance: random.Random
    met: Callable[[str], None]  # report an event ("ack", "commit") at which the broker may be killed


def persistently(make: Callable[[], T]) -> T:
    """Call `make` until it succeeds: some clients must reach the broker at their first attempt."""
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while True:
        try:
            return make()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Workload(Protocol):
    """Clients that work while the broker comes and goes."""

    over: bool  # all is done that there was to do; a run ends when this is so of all its workloads

    def topics(self) -> Sequence[Topic]:
        """Topics that must exist before `start`."""

    def start(self, context: RunContext) -> None:
        """Begin, in threads or processes of the workload; the broker runs."""

    def check(self, context: RunContext, *, settled: bool) -> Iterable[Violation]:
        """Return violations that the history does not show. The broker runs again; `settled`: this is the end."""

    def figures(self) -> Mapping[str, int | float]:
        """More figures for the report."""

    def finish(self, seconds: float) -> None:
        """End, with every request answered if `seconds` are enough. The broker runs, and will not be killed."""
