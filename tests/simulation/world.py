"""Simulated time: events of all processes in one queue, in an order that follows from a seed.

    world.call_later(0.5, call)                  # an event of the surroundings: network, ZooKeeper, faults
    process = world.start_process("broker 1", "10.0.0.1")
    process.reactor.callLater(0.5, call)         # an event of a process: waits while it is paused, ends with it

The trace is a digest of all events: two runs of a seed have the same one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

START_SECONDS: Final = 1_700_000_000.0
_ORIGIN: Final = int(START_SECONDS)


@implementer(IDelayedCall)
class Timer:
    """Scheduled call; Twisted's `IDelayedCall`."""

    __slots__ = ("_arguments", "_call", "_entry", "_named", "_world", "process", "time")

    def __init__(
        self,
        world: World,
        process: Process | None,
        time: float,
        call: Callable[..., object],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> None:
        self.process = process
        self.time = time
        self._world = world
        self._call: Callable[..., object] | None = call
        self._arguments = arguments
        self._named = named
        self._entry = 0

    def active(self) -> bool:
        return self._call is not None

    def cancel(self) -> None:
        self._call = None

    def getTime(self) -> float:
        return self.time

    def reset(self, seconds: float) -> None:
        self.time = self._world.now + seconds
        self._world.queue(self)

    def delay(self, seconds: float) -> None:
        self.time += seconds
        self._world.queue(self)

    def is_entry(self, entry: int) -> bool:
        """Return whether an entry of the queue is the newest one of a timer that is active."""
        return entry == self._entry and self._call is not None

    def queued(self, entry: int) -> None:
        self._entry = entry

    @property
    def label(self) -> str:
        return str(getattr(self._call, "__qualname__", type(self._call).__name__))

    def run(self) -> None:
        call, self._call = self._call, None
        assert call is not None
        call(*self._arguments, **self._named)


@implementer(IReactorTime)
class ProcessReactor:
    """Reactor of one process: time, timers, and a way to the network and the worker threads."""

    running = True

    def __init__(self, process: Process) -> None:
        self.process = process

    def seconds(self) -> float:
        return self.process.world.now

    def callLater(self, delay: float, callable: Callable[..., object], *args: Any, **kw: Any) -> Timer:
        return self.process.world.call_later(delay, callable, *args, process=self.process, **kw)

    def callFromThread(self, callable: Callable[..., object], *args: Any, **kw: Any) -> None:
        self.callLater(0, callable, *args, **kw)

    def callWhenRunning(self, callable: Callable[..., object], *args: Any, **kw: Any) -> None:
        callable(*args, **kw)

    def getDelayedCalls(self) -> list[Timer]:
        raise NotImplementedError


class Process:
    """One life of a broker or client, on a host; `end` is the power cut of its code, not of its files."""

    def __init__(self, world: World, name: str, host: str) -> None:
        self.world = world
        self.name = name
        self.host = host
        self.is_alive = True
        self.paused_until = 0.0
        self.reactor = ProcessReactor(self)
        self.on_end: list[Callable[[bool], None]] = []
        """Called with whether peers hear nothing of the end."""

    @property
    def is_paused(self) -> bool:
        return self.world.now < self.paused_until

    @property
    def is_running(self) -> bool:
        return self.is_alive and not self.is_paused

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.world.now + seconds)

    def end(self, *, silently: bool = False) -> None:
        """End the process: none of its code runs any more. Its peers hear nothing if its host ends, too."""
        if self.is_alive:
            self.is_alive = False
            for call in self.on_end:
                call(silently)


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now = START_SECONDS
        self.steps = 0
        self.current: Process | None = None
        """Process whose code runs now."""
        self.after_step: Callable[[Process | None], None] = lambda process: None
        self.on_event: Callable[[str], None] | None = None
        """Gets a line for each event."""
        self.is_over = False
        self._queue: list[tuple[float, int, Timer]] = []
        self._entries = 0
        self._notes: list[str] = []
        self._ended: list[Any] = []
        """Events of ended processes: kept, so that no code runs when they are collected as garbage."""

    @property
    def elapsed(self) -> float:
        return self.now - START_SECONDS

    @property
    def trace(self) -> str:
        return blake2b("".join(self._notes).encode(), digest_size=16).hexdigest()

    def start_process(self, name: str, host: str) -> Process:
        return Process(self, name, host)

    def call_later(
        self, delay: float, call: Callable[..., object], *arguments: Any, process: Process | None = None, **named: Any
    ) -> Timer:
        timer = Timer(self, process, self.now + delay, call, arguments, named)
        self.queue(timer)
        return timer

    def queue(self, timer: Timer) -> None:
        """Put a timer into the queue, again after a change of its time."""
        if self.is_over or (timer.process is not None and not timer.process.is_alive):
            self._ended.append(timer)
            return
        self._entries += 1
        timer.queued(self._entries)
        heappush(self._queue, (timer.time, self._entries, timer))

    def note(self, text: str) -> None:
        """Make something a part of the trace."""
        self._notes.append(text)
        if self.on_event is not None:
            self.on_event(text)

    def step(self) -> bool:
        """Run the next event; return False without any."""
        while self._queue:
            time, entry, timer = heappop(self._queue)
            if not timer.is_entry(entry):
                continue
            process = timer.process
            if process is not None and not process.is_alive:
                self._ended.append(timer)
                continue
            self.now = max(self.now, time)
            if process is not None and process.is_paused:
                timer.time = process.paused_until
                self.queue(timer)
                continue
            self._run(timer, process)
            return True
        return False

    def _run(self, timer: Timer, process: Process | None) -> None:
        self.steps += 1
        name = process.name if process is not None else "-"
        self.note(f"{self.now - _ORIGIN:.6f} {name} {timer.label}\n")
        self.current = process
        try:
            timer.run()
        finally:
            self.current = None
        self.after_step(process)

    def run_until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Run events until a condition holds; return False if it does not within simulated seconds."""
        deadline = self.now + seconds
        while not holds():
            if not self._queue or self._queue[0][0] > deadline:
                self.now = max(self.now, deadline)
                return holds()
            self.step()
        return True

    def run_for(self, seconds: float) -> None:
        self.run_until(lambda: False, seconds)

    def end(self) -> None:
        """Take no more events: what is collected as garbage changes nothing."""
        self.is_over = True
