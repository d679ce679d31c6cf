"""Figures of one broker in a large cluster of KRaft: `python -m tests.simulation.scale PARTITIONS`.

One broker is the product, on simulated time and network. The other 99 are names in the metadata: a model of a
controller has their records. Processor time is measured in each event of the broker's process, which is like an
iteration of its reactor.

    phase            what happens
    ---------------  ----------------------------------------------------------------------------------
    start            the broker reads a snapshot of all partitions, registers, and serves
    rest             heartbeats and fetches of the metadata log, 10 simulated seconds
    broker lost      a third of the others are fenced, one after the other, and their partitions move
    broker restarted some brokers stop, register and get into sync again, one after the other
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.logger import globalLogPublisher

from pylogbroker.wire.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    UserScramCredentialRecord,
)
from tests.kraft.controller_connection import connections_to
from tests.kraft.logs import LeaderLog, snapshot
from tests.kraft.model_controller import ModelController
from tests.kraft.model_state import Member, ModelState, Replicated, partition_change
from tests.simulation.broker import SimulatedBroker
from tests.simulation.cluster import format_directory
from tests.simulation.disk import SyncedSizes
from tests.simulation.network import Network, SimulatedPort
from tests.simulation.quorum import PORT, QUORUM_HOSTS, QUORUM_SETTINGS
from tests.simulation.seams import Surroundings
from tests.simulation.world import Process, Timer, World

SIZES: Final = (1_000, 10_000, 50_000)
BROKERS: Final = 100
_RACKS: Final = 3
_RESTARTED: Final = 3
_PER_TOPIC: Final = 100
_PARTITIONS_PER_USER: Final = 10
_REPLICAS: Final = 3
_HERE: Final = 1
_IN_THREAD: Final = "SimulatedThreads._work"
_ALTERED_TOGETHER: Final = 500
"""Partitions whose leader asks for another ISR at the same time."""


@attrs.define
class Events:
    """Events of the broker's process in one phase, by their processor time."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    label: str = ""
    over_20_ms: int = 0


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
        if process is None or not process.name.startswith("broker") or label == _IN_THREAD:
            return
        seconds, events = time.process_time() - began, self.events
        events.count += 1
        events.seconds += seconds
        events.over_20_ms += seconds > 0.02
        if seconds > events.longest:
            events.longest, events.label = seconds, label


def large_state(partitions: int) -> ModelState:
    """Return a cluster of which this broker has no partition yet."""
    state = ModelState(levels={"metadata.version": 33, "group.version": 1})
    others = [number for number in range(1, BROKERS + 1) if number != _HERE]
    for number in others:
        state.members[number] = Member(
            number,
            UUID(int=number),
            [BrokerEndpoint("PLAINTEXT", f"10.1.0.{number}", 9092, 0)],
            rack=f"rack {number % _RACKS}",
            is_fenced=False,
        )
    for first in range(0, partitions, _PER_TOPIC):
        name, topic_id = f"topic-{first // _PER_TOPIC}", UUID(int=1_000_000 + first)
        state.topics[name], state.names[topic_id] = topic_id, name
        state.settings[2, name] = {"min.insync.replicas": "2"}
        for number in range(min(_PER_TOPIC, partitions - first)):
            at = first + number
            replicas = [others[(at + place * (1 + at // len(others) % 7)) % len(others)] for place in range(_REPLICAS)]
            state.partitions[topic_id, number] = Replicated(replicas, list(replicas), replicas[0])
    return state


@attrs.define(eq=False)
class ScaleRun:
    partitions: int
    world: MeasuredWorld = attrs.field(factory=lambda: MeasuredWorld(1))
    network: Network = attrs.field(init=False)
    controller: ModelController = attrs.field(init=False)
    snapshot_bytes: int = 0

    def __attrs_post_init__(self) -> None:
        self.network = Network(self.world)
        process = self.world.start_process("controller", QUORUM_HOSTS[0])
        state, end = large_state(self.partitions), self.partitions + 10_000
        log = LeaderLog(start=end, high_watermark=end)
        log.snapshots[end] = snapshot([*state.records(), *self._credentials()], per_batch=1_000)
        self.snapshot_bytes = len(log.snapshots[end])
        self.controller = ModelController(
            process.reactor, PORT, log=log, host=QUORUM_HOSTS[0], levels={}, session_seconds=1e9, chunk_bytes=1 << 20
        )
        self.controller.state = state
        port = SimulatedPort(self.network, process, PORT, connections_to(self.controller.answer))
        port.startListening()

    def _credentials(self) -> Iterator[MetadataRecord]:
        for number in range(self.partitions // _PARTITIONS_PER_USER):
            yield UserScramCredentialRecord(f"user-{number}", 1, b"salt", b"stored key", b"server key", 4096)

    def measure(self, phase: str, work: Callable[[], object], times: int = 1) -> None:
        """Print the figures of a phase; its processor time is that of one of its steps."""
        events = self.world.events = Events()
        work()
        print(
            f"{self.partitions:>8,} partitions, {phase:<16} {events.seconds / times:7.3f} s of processor time, "
            f"longest event {events.longest * 1000:6.1f} ms ({events.label}), {events.over_20_ms} over 20 ms",
            flush=True,
        )

    def live(self) -> None:
        disk = SyncedSizes()
        surroundings = Surroundings(self.world, self.network, _Nothing(), disk, {}, time.process_time)
        parent = "/dev/shm" if os.path.isdir("/dev/shm") else None
        with TemporaryDirectory(dir=parent) as directory, surroundings.in_place():
            path = f"{directory}/{_HERE}"
            os.mkdir(path)
            format_directory(path, _HERE)
            settings = {**QUORUM_SETTINGS, "auto.create.topics.enable": "false"}
            self._measure_all(SimulatedBroker(self.world, _HERE, path, disk, settings, _raise))

    def _measure_all(self, broker: SimulatedBroker) -> None:
        before = _resident_bytes()
        self.measure("start", lambda: self._start(broker))
        grown = _resident_bytes() - before
        print(
            f"{self.partitions:>8,} partitions, snapshot {self.snapshot_bytes / 1e6:.1f} MB, memory "
            f"{grown / 1e6:.1f} MB more after the start: {grown / self.partitions:.0f} bytes for each partition"
        )
        self.measure("rest", lambda: self.world.run_for(10))
        rack = [number for number, member in self.controller.members.items() if member.rack == "rack 0"]
        self.measure("broker lost", lambda: self._each(rack, self.controller.fence), len(rack))
        restarted = [number for number, member in self.controller.members.items() if member.rack == "rack 1"]
        some = restarted[:_RESTARTED]
        self.measure("broker restarted", lambda: self._each(some, self._restart), len(some))

    def _start(self, broker: SimulatedBroker) -> None:
        broker.start()
        if not self.world.run_until(lambda: broker.serving is not None, 600):
            raise AssertionError("the broker does not serve")

    def _each(self, brokers: Iterable[int], work: Callable[[int], object]) -> None:
        for number in brokers:
            work(number)
            self.world.run_for(2)

    def _restart(self, number: int) -> None:
        """Let a broker stop in an orderly way, start again, and get into sync."""
        controller, member = self.controller, self.controller.members[number]
        was_in = [key for key, state in controller.partitions.items() if number in state.isr]
        left = BrokerRegistrationChangeRecord(number, member.epoch, fenced=1, in_controlled_shutdown=1)
        controller.append(left, *controller.replicas.without(number))
        self.world.run_for(2)
        epoch = controller.log.end
        controller.append(
            RegisterBrokerRecord(number, False, UUID(int=epoch), epoch, member.listeners, rack=member.rack, fenced=True)
        )
        unfenced = BrokerRegistrationChangeRecord(number, epoch, fenced=-1)
        controller.append(unfenced, *controller.replicas.elected(number))
        expansions = list(self._expansions(number, was_in))
        for first in range(0, len(expansions), _ALTERED_TOGETHER):
            controller.append(*expansions[first : first + _ALTERED_TOGETHER])

    def _expansions(self, number: int, keys: Iterable[Any]) -> Iterator[MetadataRecord]:
        for key in keys:
            state = self.controller.partitions[key]
            if number not in state.isr:
                record = partition_change(key, state, isr=[*state.isr, number])
                assert record is not None
                yield record


class _Nothing:
    """Stands for the metadata of a run whose invariants nobody checks."""


def _raise(failure: Any) -> None:
    failure.raiseException()


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main() -> None:
    globalLogPublisher._observers = []
    gc.disable()  # a broker's process freezes its objects (`tap.garbage_collection`), those of the model are here, too
    ScaleRun(int(sys.argv[1])).live()


if __name__ == "__main__":
    main()
