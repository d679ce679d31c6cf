"""Processor time and memory of a broker's process in a simulation: events that are timed, and lines about them."""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure

from tests.simulation.broker import SimulatedBroker
from tests.simulation.cluster import format_directory
from tests.simulation.disk import SyncedSizes
from tests.simulation.network import Network
from tests.simulation.seams import Surroundings
from tests.simulation.world import Process, Timer, World

GOAL_SECONDS: Final = 0.02
_IN_THREAD: Final = "SimulatedThreads._work"
_START_SECONDS_MAX: Final = 3600


@attrs.define
class Events:
    """Events of the broker's process in one phase, by their processor time."""

    seconds: float = 0.0
    longest: float = 0.0
    label: str = ""
    over_goal: int = 0

    def took(self, seconds: float, label: str) -> None:
        self.seconds += seconds
        self.over_goal += seconds > GOAL_SECONDS
        if seconds > self.longest:
            self.longest, self.label = seconds, label


class MeasuredWorld(World):
    """Has no trace: it would need memory."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.events = Events()

    def note(self, text: str) -> None:
        """Keep nothing."""

    def _run(self, timer: Timer, process: Process | None) -> None:
        label = timer.label
        began = time.process_time()
        super()._run(timer, process)
        if process is not None and process.name.startswith("broker") and label != _IN_THREAD:
            self.events.took(time.process_time() - began, label)


@attrs.define(eq=False)
class Measurement:
    """One broker, the product, in a simulated cluster of `title`; prints a line for each phase."""

    title: str
    world: MeasuredWorld = attrs.field(factory=lambda: MeasuredWorld(1))
    network: Network = attrs.field(init=False)
    _failures: list[Failure] = attrs.field(factory=list, init=False)
    """Errors that end the broker."""

    def __attrs_post_init__(self) -> None:
        self.network = Network(self.world)

    def measure(self, phase: str, work: Callable[[], object], times: int = 1) -> None:
        """Print the figures of a phase; its processor time is that of one of its `times` steps."""
        events = self.world.events = Events()
        work()
        self.say(
            f"{phase:<20} {events.seconds / times:7.3f} s of processor time, "
            f"longest event {events.longest * 1000:5.1f} ms ({events.label}), {events.over_goal} over 20 ms"
        )

    def say(self, text: str) -> None:
        print(f"{self.title}, {text}", flush=True)

    @contextmanager
    def broker(self, broker_id: int, stored: Any, settings: dict[str, str]) -> Iterator[SimulatedBroker]:
        """Stand in for the system, and make a broker that is not started."""
        disk = SyncedSizes()
        surroundings = Surroundings(self.world, self.network, stored, disk, {}, time.process_time)
        parent = "/dev/shm" if os.path.isdir("/dev/shm") else None
        with TemporaryDirectory(dir=parent) as directory, surroundings.in_place():
            path = f"{directory}/{broker_id}"
            os.mkdir(path)
            if "process.roles" in settings:
                format_directory(path, broker_id)
            settings = {**settings, "auto.create.topics.enable": "false"}
            yield SimulatedBroker(self.world, broker_id, path, disk, settings, self._failures.append)

    def start(self, broker: SimulatedBroker) -> None:
        broker.start()
        self.world.run_until(lambda: broker.serving is not None or bool(self._failures), _START_SECONDS_MAX)
        if broker.serving is None:
            raise AssertionError(f"the broker does not serve: {self._failures}")


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def peak_bytes() -> int:
    """Return the largest resident size of the process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def prepare_process() -> None:
    """Disable logs and garbage collection.

    A broker's process freezes its objects (`tap.garbage_collection`), so that no collection examines the metadata. Here
    the model's objects are in the same process.
    """
    globalLogPublisher._observers = []
    gc.disable()
