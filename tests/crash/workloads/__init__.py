"""What goes on while the broker is killed: each workload brings its topics and its clients.

    producing    producers of several clients, with every codec and promise
    consuming    groups that read what those write, and commit
    compacting   writers of keyed records to a compacted topic
    copying      copiers that do both in transactions, and are killed themselves (`crews`)

What clients note in the history of the run is judged for all of them (`judge`). What else a workload knows to be wrong
it tells itself. Another one is a class with the methods of `Workload`, and a line in `__main__`.
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
_WAIT_SECONDS_MAX: Final = 60.0


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


@attrs.frozen
class RunContext:
    """What a workload is given."""

    bootstrap: str
    history: History
    reader: Reader
    chance: random.Random
    met: Callable[[str], None]  # tell of an event ("ack", "commit") at which the broker may be killed


def persistently(make: Callable[[], T]) -> T:
    """What `make` makes: a client may want to find the broker at its first attempt, or else is not made at all."""
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
        """What must be there before `start`."""

    def start(self, context: RunContext) -> None:
        """The broker runs: begin, in threads or processes of the workload's own."""

    def check(self, context: RunContext, *, settled: bool) -> Iterable[Violation]:
        """The broker runs again: what is wrong, besides what the history shows? `settled`: this is the end."""

    def figures(self) -> Mapping[str, int | float]:
        """What else is to be told in the end."""

    def finish(self, seconds: float) -> None:
        """The broker runs, and will: come to an end, with every question answered if `seconds` are enough."""
