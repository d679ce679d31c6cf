"""Runs of the simulation: a seed gives the setup, all delays and all faults, so it repeats a run exactly."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from traceback import format_exception
from typing import Any, Final, TypeVar
from unittest.mock import patch

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import formatEvent, globalLogPublisher

from pylogbroker.metadata.image import PartitionKey
from tests.cluster.replica_logs import records_in
from tests.replication.invariants import Violation
from tests.simulation.administrator import Administrator
from tests.simulation.clients import Admin, Client, Consumer, Producer, Repeater
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.consumer_groups import ConsumerGroupMember, LastMember, Owners
from tests.simulation.copiers import Copier, CopyReader, committed_values
from tests.simulation.faults import KINDS, Faults
from tests.simulation.groups import NO_OFFSET, GroupMember, OffsetReader
from tests.simulation.invariants import Invariants
from tests.simulation.network import Network
from tests.simulation.pipeliners import Pipeliner
from tests.simulation.reassigner import Reassigner
from tests.simulation.recreator import RecreatedReader, Recreator
from tests.simulation.registers import Registers
from tests.simulation.rest import check_kept, unrest
from tests.simulation.seams import Surroundings
from tests.simulation.setup import TOPIC, ZOOKEEPER, Setup
from tests.simulation.share_ledger import ShareLedger
from tests.simulation.share_members import LastShareMember, ShareMember
from tests.simulation.world import World

START_SECONDS_MAX: Final = 60.0
REST_SECONDS_MAX: Final = 120.0
_MEMORY_DISK: Final = "/dev/shm"
_POLL_SECONDS: Final = 0.25
_LAST_CLIENT: Final = 99  # without faults
_NOTHING: Mapping[str, Any] = {}
Show = Callable[[str], object]
Member = TypeVar("Member", bound=ConsumerGroupMember)


@attrs.define(eq=False)
class Run:
    """One run, and what it has done."""

    world: World
    cluster: SimulatedCluster
    invariants: Invariants
    faults: Faults
    clients: list[Client] = attrs.field(factory=list)
    offsets: Registers = attrs.field(factory=lambda: Registers("11", NO_OFFSET))
    consumer_group_offsets: Registers = attrs.field(factory=lambda: Registers("15", NO_OFFSET))
    owners: Owners = attrs.field(factory=Owners)
    shared: ShareLedger = attrs.field(init=False)
    copied: int = 0

    def __attrs_post_init__(self) -> None:
        self.shared = ShareLedger(self.cluster)

    @property
    def producers(self) -> list[Producer]:
        return [client for client in self.clients if isinstance(client, Producer)]

    def live(self) -> None:
        """Start, work under faults, come to rest, and check everything."""
        self._start()
        self.faults.begin()
        self.world.run_for(self.cluster.setup.seconds)
        self.faults.heal()
        self.cluster.stored.heal()
        for client in self.clients:
            client.stop()
        self._come_to_rest()
        data = {(TOPIC, index): self._read((TOPIC, index)) for index in range(self.cluster.setup.partitions)}
        self._come_to_rest()  # a reassignment may have begun late, whose client has not waited for it
        check_kept(self.cluster, self.invariants, self.producers, data)
        if self.cluster.setup.group_members:
            self._finish(OffsetReader(self.cluster, _LAST_CLIENT, self.offsets), "committed offsets are not answered")
        if self.cluster.setup.consumer_group_members:
            last = self._consumer_group_member(LastMember, _LAST_CLIENT)
            self._finish(last, "a new member does not get all partitions")
        if self.cluster.setup.copiers:
            reader = CopyReader(self.cluster, _LAST_CLIENT)
            self._finish(reader, "copies are not answered")
            self.copied = reader.copied
        if self.cluster.setup.share_members:
            self._finish(self._last_share_member(), "20: a share group does not finish all records")
        for client in self.clients:
            if isinstance(client, Administrator):
                client.check_stored()
            if isinstance(client, Recreator):
                checker = RecreatedReader(self.cluster, _LAST_CLIENT, client)
                self._finish(checker, "the records of a topic are not answered")

    def _start(self) -> None:
        cluster = self.cluster
        cluster.start()
        self._wait(lambda: len(cluster.serving) == len(cluster.brokers), START_SECONDS_MAX, lambda: "brokers are down")
        self._finish(Admin(cluster, _LAST_CLIENT), "no topic")
        self.clients += [
            Producer(cluster, 1, self.invariants.acknowledge),
            Repeater(cluster, 2, self.invariants.acknowledge),
            Consumer(cluster, 3, self.invariants.read),
        ]
        for _ in range(cluster.setup.group_members):
            self.clients.append(GroupMember(cluster, len(self.clients) + 1, self.invariants.read, self.offsets))
        for _ in range(cluster.setup.copiers):
            self.clients.append(Copier(cluster, len(self.clients) + 1))
        for _ in range(cluster.setup.reassigners):
            self.clients.append(Reassigner(cluster, len(self.clients) + 1))
        for _ in range(cluster.setup.recreators):
            self.clients.append(Recreator(cluster, len(self.clients) + 1))
        for _ in range(cluster.setup.administrators):
            self.clients.append(Administrator(cluster, len(self.clients) + 1))
        for _ in range(cluster.setup.pipeliners):
            self.clients.append(Pipeliner(cluster, len(self.clients) + 1, self.invariants.acknowledge))
        for _ in range(cluster.setup.consumer_group_members):
            self.clients.append(self._consumer_group_member(ConsumerGroupMember, len(self.clients) + 1))
        for _ in range(cluster.setup.share_members):
            self.clients.append(ShareMember(cluster, len(self.clients) + 1, self.shared))
        for client in self.clients:
            client.start()

    def _consumer_group_member(self, member: type[Member], number: int) -> Member:
        return member(self.cluster, number, self.invariants.read, self.consumer_group_offsets, self.owners)

    def _last_share_member(self) -> LastShareMember:
        setup = self.cluster.setup
        keys = [(setup.shared_topic, index) for index in range(setup.partitions)]
        self._wait(lambda: all(map(self._is_stable, keys)), REST_SECONDS_MAX, lambda: "a transaction stays open")
        records = {key: list(records_in(self._read(key))) for key in keys}
        ends = {key: len(some) for key, some in records.items()}
        if setup.shared_topic == TOPIC:
            values = {key: {record.offset: record.value or b"" for record in some} for key, some in records.items()}
        else:
            values = {key: committed_values(some) for key, some in records.items()}
        return LastShareMember(self.cluster, _LAST_CLIENT, self.shared, values, ends)

    def _is_stable(self, key: PartitionKey) -> bool:
        """Return whether no replica has an open transaction."""
        replicas = (replica for broker in self.cluster.serving for replica in self.cluster.replicas_of(broker))
        return all(
            replica.log.last_stable_offset == replica.log.log_end_offset for replica in replicas if replica.key == key
        )

    def _come_to_rest(self) -> None:
        def is_at_rest() -> bool:
            return all(client.is_finished for client in self.clients) and next(unrest(self.cluster), None) is None

        def why() -> str:
            working = [client.name for client in self.clients if not client.is_finished]
            return f"{working} wait for answers; {next(unrest(self.cluster), 'the cluster is whole')}"

        self._wait(is_at_rest, REST_SECONDS_MAX, why)

    def _wait(self, holds: Callable[[], bool], seconds: float, why: Callable[[], str]) -> None:
        deadline = self.world.now + seconds
        while not holds():
            if self.world.now >= deadline:
                raise Violation(f"no rest without faults: {why()}")
            self.world.run_for(_POLL_SECONDS)

    def _finish(self, client: Client, why: str) -> None:
        """Let a client do its work to the end."""
        client.start()
        self._wait(lambda: client.is_finished, REST_SECONDS_MAX, lambda: why)

    def _read(self, key: PartitionKey) -> bytes:
        found: list[bytes] = []

        def read(key: PartitionKey, data: bytes) -> None:
            self.invariants.read(key, data)
            found.append(data)

        consumer = Consumer(self.cluster, _LAST_CLIENT, read)
        end = len(self.invariants.committed.get(key, ()))

        async def read_all() -> None:
            while consumer.positions.get(key, 0) < end:
                await consumer.read(await consumer.leader_of(key), key)
            consumer.is_finished = True

        Deferred.fromCoroutine(read_all()).addErrback(self.cluster.failed)
        self._wait(lambda: consumer.is_finished, REST_SECONDS_MAX, lambda: "a consumer does not get all records")
        return b"".join(found)


def run(world: World, fixed: Mapping[str, Any] = _NOTHING, show: Show | None = None) -> Run:
    """Run a world's seed."""
    setup = Setup.choose(world.rng, tuple(KINDS[fixed.get("engine", ZOOKEEPER)]), **fixed)
    surroundings = Surroundings.of(world, setup, Network(world, setup.latency))
    world.on_event = show
    parent = _MEMORY_DISK if os.path.isdir(_MEMORY_DISK) else None
    with TemporaryDirectory(dir=parent) as directory, _watched_log(world, show) as problems, surroundings.in_place():
        cluster = SimulatedCluster(surroundings, setup, directory)
        found = Run(world, cluster, Invariants(cluster), Faults(cluster))

        def check(process: Any) -> None:
            found.invariants.check(process)
            if problems:
                raise Violation(f"an unexpected error was logged: {problems[0]}")
            if cluster.failures:
                cluster.failures[0].raiseException()

        world.after_step = check
        try:
            found.live()
        except Violation as violation:
            raise Violation(f"{violation}\n{cluster.describe()}") from None
    return found


@contextmanager
def _watched_log(world: World, show: Show | None) -> Iterator[list[str]]:
    """Collect logged errors with a traceback, which the product does not expect."""
    problems: list[str] = []

    def observe(event: Any) -> None:
        failure = event.get("log_failure")
        if failure is not None and not world.is_over:
            problems.append(f"{formatEvent(event)}\n{failure.getTraceback()}")
        if show is not None:
            name = world.current.name if world.current is not None else "-"
            show(f"{world.elapsed:.6f} {name} logs: {formatEvent(event)}\n")

    with patch.object(globalLogPublisher, "_observers", [observe]):
        yield problems


@attrs.define
class Summary:
    """Sums over some runs, and the trace of the last one."""

    steps: int = 0
    faults: dict[str, int] = attrs.field(factory=dict)
    committed: int = 0
    acknowledged: int = 0
    read: int = 0
    offsets: int = 0
    """Acknowledged commits of offsets."""
    copied: int = 0
    """Records copied in transactions."""
    delivered: int = 0
    """Records delivered to members of share groups, each time."""
    letters: int = 0
    """Records that became dead letters."""
    reassignments: int = 0
    deletions: int = 0
    changes: int = 0
    """Acknowledged changes of settings and ACLs."""
    trace: str = ""

    def add(self, found: Run) -> None:
        self.steps += found.world.steps
        for name, count in found.faults.counts.items():
            self.faults[name] = self.faults.get(name, 0) + count
        self.committed += sum(map(len, found.invariants.committed.values()))
        self.acknowledged += len(found.invariants.acknowledged)
        self.read += found.invariants.records_read
        self.offsets += found.offsets.acknowledged + found.consumer_group_offsets.acknowledged
        self.copied += found.copied
        self.delivered += found.shared.delivered
        self.letters += found.shared.letters
        self.reassignments += sum(each.accepted for each in found.clients if isinstance(each, Reassigner))
        self.deletions += sum(each.deletions for each in found.clients if isinstance(each, Recreator))
        self.changes += sum(each.acknowledged for each in found.clients if isinstance(each, Administrator))
        self.trace = found.world.trace


def run_many(seeds: Iterable[int], fixed: Mapping[str, Any] = _NOTHING, show: Show | None = None) -> Summary:
    """Run seeds; raise the first violation, with a note that says how to repeat it."""
    summary = Summary()
    with _without_garbage() as collect:
        for seed in seeds:
            violation = _add_run(summary, seed, fixed, show)
            collect()
            if violation is not None:
                raise violation
    return summary


def _add_run(summary: Summary, seed: int, fixed: Mapping[str, Any], show: Show | None) -> Violation | None:
    """Return a violation without the frames of its traceback: these would keep the run's objects."""
    world = World(seed)
    try:
        summary.add(run(world, fixed, show))
    except Exception as error:
        text = str(error) if isinstance(error, Violation) else "".join(format_exception(error))
        violation = Violation(text)
        violation.add_note(f"after {world.elapsed:.3f} s; repeat: python -m tests.simulation --seed {seed} --show")
        return violation
    return None


@contextmanager
def _without_garbage() -> Iterator[Callable[[], object]]:
    """Give a function to call after each run: what a run leaves behind is not collected during the next one."""

    def collect() -> None:
        with patch.object(sys, "unraisablehook", lambda _: None), patch.object(globalLogPublisher, "_observers", []):
            gc.collect()

    was_enabled = gc.isenabled()
    collect()
    gc.freeze()
    gc.disable()
    try:
        yield collect
    finally:
        collect()
        gc.unfreeze()
        if was_enabled:
            gc.enable()
