"""Parts that the harnesses of both coordinators share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from pylogbroker.coordinators import CoordinatorRuntime, PartitionReplay, ReplayState
from pylogbroker.long_loops import at_once
from pylogbroker.records import LogEntry

R = TypeVar("R", bound=ReplayState)
S = TypeVar("S")
T = TypeVar("T")


class Answer(Generic[T]):
    """A reply that remembers all answers it got."""

    def __init__(self) -> None:
        self.all: list[T] = []
        self._listener: Callable[[T], None] | None = None

    def __call__(self, value: T) -> None:
        self.all.append(value)
        if self._listener is not None:
            self._listener(value)

    def listen(self, listener: Callable[[T], None]) -> None:
        """Call it with the answer, now or when it comes."""
        if self.all:
            listener(self.value)
        self._listener = listener

    @property
    def value(self) -> T:
        assert len(self.all) == 1, f"{len(self.all)} answers"
        return self.all[0]

    @property
    def waits(self) -> bool:
        return not self.all


class RuntimeHarness(Generic[R, S]):
    """A runtime, and the time."""

    def __init__(self, runtime: CoordinatorRuntime[R, S]) -> None:
        self.now = 1_000_000
        self.runtime = runtime

    def begin_load(self, partition: int, epoch: int = 0) -> PartitionReplay[R]:
        replay = self.runtime.load(partition, epoch, self.now)
        assert replay is not None
        return replay

    def load(self, partition: int, entries: Iterable[LogEntry] = (), epoch: int = 0) -> PartitionReplay[R]:
        """Load a shard at once."""
        replay = self.begin_load(partition, epoch)
        replay.replay(entries)
        self.activate(replay)
        return replay

    def activate(self, replay: PartitionReplay[R]) -> None:
        """Run all steps of an activation."""
        at_once(self.runtime.activate(replay, self.now))

    def load_all(self) -> None:
        for partition in range(self.runtime.partitions):
            self.load(partition)

    def unload(self, partition: int) -> None:
        self.runtime.unload(partition, self.now)

    def close(self) -> None:
        self.runtime.close(self.now)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, doing what is due when it is due."""
        end = self.now + milliseconds
        while (due := self.runtime.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            at_once(self.runtime.tick(self.now))
        self.now = end
