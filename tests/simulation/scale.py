"""Figures of one broker in a large cluster of KRaft: `python -m tests.simulation --scale`.

One broker is the product, on simulated time and network, and has no replica. The others are names in the metadata: a
model of a controller has their records. Processor time is measured in each event of the broker's process, which is like
an iteration of its reactor.

    phase            what happens
    ---------------  ----------------------------------------------------------------------------------
    start            the broker reads a snapshot of all partitions, registers, and serves
    rest             heartbeats and fetches of the metadata log, 10 simulated seconds
    broker lost      one broker is fenced, and its leaderships move
    rack lost        a third of the others are fenced at once
    restart of N     others, if possible all, stop, register and get into sync again, one after the other

With `--snapshot-mb` the start alone is measured, with a snapshot that the model makes as the broker reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from uuid import UUID

import attrs
import click

from pylogbroker.wire.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    UserScramCredentialRecord,
)
from tests.kraft.controller_connection import connections_to
from tests.kraft.large_snapshot import LargeSnapshot
from tests.kraft.logs import LeaderLog, SnapshotBytes, snapshot
from tests.kraft.model_controller import ModelController
from tests.kraft.model_state import Key, Member, ModelState, Replicated, partition_change
from tests.simulation.broker import SimulatedBroker
from tests.simulation.measured import Measurement, peak_bytes, prepare_process, resident_bytes
from tests.simulation.network import SimulatedPort
from tests.simulation.quorum import PORT, QUORUM_HOSTS, QUORUM_SETTINGS

CLUSTERS: Final = ((3, 4_000), (30, 40_000), (100, 200_000), (300, 400_000))
"""Brokers and partitions."""
COUNTS: Final = (click.IntRange(3, 1_000), click.IntRange(1, 2_000_000))
MEGABYTES: Final = click.IntRange(1, 4_000)
_LEVELS: Final = {"metadata.version": 33, "group.version": 1}
_RACKS: Final = 3
_PER_TOPIC: Final = 100
_PARTITIONS_PER_USER: Final = 10
_REPLICAS: Final = 3
_HERE: Final = 1
_CHUNK_BYTES: Final = 1 << 20
_MOVED_MAX: Final = 20_000_000
"""Bounds a rolling restart: the product of its brokers and all partitions."""
_ALTERED_TOGETHER: Final = 500
"""Partitions whose leader asks for another ISR at the same time."""


def other_members(brokers: int) -> dict[int, Member]:
    """Return the brokers beside this one."""
    return {
        number: Member(
            number,
            UUID(int=number),
            [BrokerEndpoint("PLAINTEXT", f"10.1.{number >> 8}.{number & 255}", 9092, 0)],
            rack=f"rack {number % _RACKS}",
            is_fenced=False,
        )
        for number in range(_HERE + 1, _HERE + 1 + brokers)
    }


def assignment(brokers: Sequence[int], number: int) -> list[int]:
    """Return the replicas of a partition by its number in the cluster."""
    count = len(brokers)
    step = 1 + number // count % max(1, min(7, (count - 1) // 2))
    return [brokers[(number + place * step) % count] for place in range(_REPLICAS)]


def large_state(brokers: int, partitions: int) -> ModelState:
    """Return a cluster of which this broker has no partition yet."""
    state = ModelState(levels=dict(_LEVELS), members=other_members(brokers))
    others = list(state.members)
    for first in range(0, partitions, _PER_TOPIC):
        name, topic_id = f"topic-{first // _PER_TOPIC}", UUID(int=1_000_000 + first)
        state.topics[name], state.names[topic_id] = topic_id, name
        state.settings[2, name] = {"min.insync.replicas": "2"}
        for number in range(min(_PER_TOPIC, partitions - first)):
            replicas = assignment(others, first + number)
            state.partitions[topic_id, number] = Replicated(replicas, list(replicas), replicas[0])
    return state


def _credentials(partitions: int) -> Iterator[MetadataRecord]:
    for number in range(partitions // _PARTITIONS_PER_USER):
        yield UserScramCredentialRecord(f"user-{number}", 1, b"salt", b"stored key", b"server key", 4096)


def _modelled(measurement: Measurement, state: ModelState, stored: SnapshotBytes) -> ModelController:
    """Return a controller whose log begins with a snapshot, in the measured network."""
    process = measurement.world.start_process("controller", QUORUM_HOSTS[0])
    end = len(state.partitions) + 100_000_000
    log = LeaderLog(start=end, high_watermark=end, snapshots={end: stored})
    controller = ModelController(
        process.reactor, PORT, log=log, host=QUORUM_HOSTS[0], session_seconds=1e9, chunk_bytes=_CHUNK_BYTES
    )
    controller.state = state
    SimulatedPort(measurement.network, process, PORT, connections_to(controller.answer)).startListening()
    return controller


def _measure_start(measurement: Measurement, broker: SimulatedBroker, stored: SnapshotBytes, partitions: int) -> None:
    before = resident_bytes()
    measurement.measure("start", lambda: measurement.start(broker))
    grown = resident_bytes() - before
    measurement.say(
        f"snapshot {len(stored) / 1e6:.1f} MB, memory {grown / 1e6:.1f} MB more after the start: "
        f"{grown / partitions:.0f} bytes for each partition"
    )


@attrs.define(eq=False)
class ScaleRun:
    """Measures the start of a broker, and what changes of other brokers cost it."""

    brokers: int
    partitions: int
    measurement: Measurement = attrs.field(init=False)
    controller: ModelController = attrs.field(init=False)
    _keys: dict[int, list[Key]] = attrs.field(init=False)
    """Partitions of which a broker has a replica."""

    def live(self) -> None:
        state = large_state(self.brokers, self.partitions)
        stored = snapshot([*state.records(), *_credentials(self.partitions)], per_batch=1_000)
        self._keys = {number: [] for number in state.members}
        for key, partition in state.partitions.items():
            for number in partition.replicas:
                self._keys[number].append(key)
        title = f"KRaft, {self.brokers} brokers, {self.partitions:,} partitions"
        measurement = self.measurement = Measurement(title)
        self.controller = _modelled(measurement, state, stored)
        with measurement.broker(_HERE, None, dict(QUORUM_SETTINGS)) as broker:
            _measure_start(measurement, broker, stored, self.partitions)
            measurement.measure("rest", lambda: measurement.world.run_for(10))
            self._measure_changes()

    def _measure_changes(self) -> None:
        others = [number for number in self.controller.members if number != _HERE]
        measure, before = self.measurement.measure, resident_bytes()
        measure("broker lost", lambda: self._lose(others[:1]))
        self._return(others[:1])
        rack = [number for number in others if self.controller.members[number].rack == "rack 0"]
        measure(f"rack of {len(rack)} lost", lambda: self._lose(rack))
        self._return(rack)
        restarted = others[: max(1, _MOVED_MAX // self.partitions)]
        measure(f"restart of {len(restarted)}", lambda: self._restart_all(restarted))
        self.measurement.say(f"memory {(resident_bytes() - before) / 1e6:.1f} MB more after these changes")

    def _settle(self) -> None:
        """Let the broker read all, and drop what it has read."""
        self.measurement.world.run_for(2)
        log = self.controller.log
        log.entries = log.entries[-1:]
        log.start = log.entries[0].base

    def _lose(self, brokers: Iterable[int]) -> None:
        for number in brokers:
            fenced = BrokerRegistrationChangeRecord(number, self.controller.members[number].epoch, fenced=1)
            self.controller.append(fenced, *self.controller.replicas.without(number, self._keys[number]))
        self._settle()

    def _return(self, brokers: Iterable[int]) -> None:
        """Let brokers register and get into sync again."""
        controller = self.controller
        for number in brokers:
            member, epoch = controller.members[number], controller.log.end
            listeners, incarnation = member.listeners, UUID(int=epoch)
            controller.append(
                RegisterBrokerRecord(number, False, incarnation, epoch, listeners, rack=member.rack, fenced=True)
            )
            unfenced = BrokerRegistrationChangeRecord(number, epoch, fenced=-1)
            controller.append(unfenced, *controller.replicas.elected(number, self._keys[number]))
            expansions = list(self._expansions(number))
            for first in range(0, len(expansions), _ALTERED_TOGETHER):
                controller.append(*expansions[first : first + _ALTERED_TOGETHER])
            self._settle()

    def _restart_all(self, brokers: Sequence[int]) -> None:
        """Let brokers stop in an orderly way, start again, and get into sync, one after the other."""
        controller = self.controller
        for number in brokers:
            left = BrokerRegistrationChangeRecord(
                number, controller.members[number].epoch, fenced=1, in_controlled_shutdown=1
            )
            controller.append(left, *controller.replicas.without(number, self._keys[number]))
            self._settle()
            self._return([number])

    def _expansions(self, number: int) -> Iterator[MetadataRecord]:
        for key in self._keys[number]:
            state = self.controller.partitions[key]
            if number not in state.isr:
                record = partition_change(key, state, isr=[*state.isr, number])
                assert record is not None
                yield record


def measure_snapshot(megabytes: int) -> None:
    """Measure the start of a broker with a snapshot of this size, which the model makes chunk by chunk."""
    state = ModelState(levels=dict(_LEVELS), members=other_members(100))
    head = [FeatureLevelRecord(*level) for level in _LEVELS.items()]
    head += [record for record in state.records() if isinstance(record, RegisterBrokerRecord)]
    stored = LargeSnapshot.of_bytes(megabytes * 1_000_000, head, list(state.members))
    measurement = Measurement(f"KRaft, 100 brokers, {stored.partitions:,} partitions")
    _modelled(measurement, state, stored)
    with measurement.broker(_HERE, None, dict(QUORUM_SETTINGS)) as broker:
        before = resident_bytes()
        _measure_start(measurement, broker, stored, stored.partitions)
        measurement.say(f"memory at most {(peak_bytes() - before) / 1e6:.1f} MB more during the start")
        measurement.measure("rest", lambda: measurement.world.run_for(10))


@click.command(help=__doc__)
@click.option("--cluster", type=COUNTS, help="brokers and partitions")
@click.option("--snapshot-mb", type=MEGABYTES, help="size of a snapshot")
def main(cluster: tuple[int, int] | None, snapshot_mb: int | None) -> None:
    prepare_process()
    if snapshot_mb is not None:
        measure_snapshot(snapshot_mb)
    if cluster is not None:
        ScaleRun(*cluster).live()


if __name__ == "__main__":
    main()
