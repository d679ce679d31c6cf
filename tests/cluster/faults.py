"""Faults at random while clients work: brokers are killed, stopped and paused, and come back.

    trap = EventWaiter(lambda: None)                    # the clients' events, as acknowledgements, reach it
    with Traffic(cluster, topics, seed=1, met=trap.met) as traffic:
        faults = Faults(cluster, traffic, random.Random(2), trap)
        print(faults.next())                            # all replicas are in sync again

A fault begins at any time, or at an event of a client.  It hits the leader of a partition, which may be one of groups'
offsets or transactions, or the controller, or any broker.

| fault          | meaning                                                                        |
|----------------|--------------------------------------------------------------------------------|
| kill           | SIGKILL; the broker comes back before or after its session has expired          |
| stop           | SIGTERM, thus a controlled shutdown                                             |
| pause          | SIGSTOP, for longer than a session or not                                       |
| roll           | each broker is stopped and started, one after the other                         |
| kill stopping  | SIGKILL in the middle of a controlled shutdown                                  |
| kill starting  | SIGKILL, and again during the next starts                                       |
| kill two       | SIGKILL of a broker, and of another one, mostly that which leads then           |
| kill all       | SIGKILL of all brokers                                                          |
| reassign       | a partition moves to other brokers; perhaps one is killed meanwhile            |
| cut            | a broker cannot send to another one, in one direction or both                   |
| cut metadata   | a broker does not reach ZooKeeper or any controller, for longer than a session or not |
| isolate        | a broker reaches neither these nor any broker                                  |
| cut and kill   | a broker does not reach another one, and the third is killed                    |

These befall controllers that are processes of their own (KRaft):

| fault              | meaning                                                                     |
|--------------------|-----------------------------------------------------------------------------|
| kill controller    | SIGKILL of the active controller                                            |
| pause controller   | SIGSTOP of the active controller                                            |
| roll controllers   | each controller is stopped and started, one after the other                 |
| kill controllers   | SIGKILL of all controllers                                                  |
| isolate controller | the active controller reaches neither a controller nor a broker             |

Cuts and isolation need a network, by which nodes connect.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Final

import attrs

from tests.cluster.cluster import Cluster
from tests.cluster.network import ZOOKEEPER, Network
from tests.cluster.traffic import INTERNAL, Traffic
from tests.crash.kill_moments import EventWaiter
from tests.kraft.cluster import QuorumCluster
from tests.kraft.quorum import ApacheQuorum
from tests.support.line_process import ProcessFailed
from tests.support.waiting import wait_until

PARTITIONS: Final = 3
SETTINGS: Final = {"min.insync.replicas": "2"}
ACKNOWLEDGED_BEFORE: Final = 100  # records, so that clients work between faults
_SECONDS_AWAY: Final = (0.0, 0.0, 4.0)  # longer than a session, or not
_SECONDS_PAUSED: Final = (1.0, 5.0)
_SECONDS_CUT: Final = (1.0, 5.0)
_STOP_SECONDS: Final = 0.3  # of a controlled shutdown, which is interrupted by a kill
_START_SECONDS: Final = (0.2, 3.0)  # the same for a start
_EVENT_SECONDS_MAX: Final = 1.0
_EVENTS: Final = ("", "", "ack", "commit", "ending", "copier")  # nothing: at any time


class Fault(StrEnum):
    KILL = "kill"
    STOP = "stop"
    PAUSE = "pause"
    ROLL = "roll"
    KILL_STOPPING = "kill stopping"
    KILL_STARTING = "kill starting"
    KILL_TWO = "kill two"
    KILL_ALL = "kill all"
    REASSIGN = "reassign"
    CUT = "cut"
    CUT_METADATA = "cut metadata"
    ISOLATE = "isolate"
    CUT_AND_KILL = "cut and kill"
    KILL_CONTROLLER = "kill controller"
    PAUSE_CONTROLLER = "pause controller"
    ROLL_CONTROLLERS = "roll controllers"
    KILL_CONTROLLERS = "kill controllers"
    ISOLATE_CONTROLLER = "isolate controller"


#: For clusters with brokers of Apache Kafka, which start slowly.
SINGLE_FAULTS: Final = (Fault.KILL, Fault.KILL, Fault.STOP, Fault.PAUSE)
#: Also for topics of which as many replicas must be in sync as a reassignment leaves.
MOVES: Final = (Fault.REASSIGN, Fault.REASSIGN, Fault.KILL, Fault.STOP)
REASSIGNED_REPLICAS: Final = 3
NETWORK_FAULTS: Final = (Fault.CUT, Fault.CUT_METADATA, Fault.ISOLATE, Fault.CUT_AND_KILL)
#: Of controllers that are processes of their own.
QUORUM_FAULTS: Final = (
    Fault.KILL_CONTROLLER,
    Fault.PAUSE_CONTROLLER,
    Fault.ROLL_CONTROLLERS,
    Fault.KILL_CONTROLLERS,
)
_NOT_EVERYWHERE: Final = (*NETWORK_FAULTS, *QUORUM_FAULTS, Fault.ISOLATE_CONTROLLER)
ALL_FAULTS: Final = (Fault.KILL, Fault.KILL, *(fault for fault in Fault if fault not in _NOT_EVERYWHERE))


@attrs.define
class Faults:
    """Inflicts faults on a cluster, and counts them."""

    cluster: Cluster
    traffic: Traffic
    chance: random.Random
    trap: EventWaiter = attrs.field(factory=lambda: EventWaiter(lambda: None))
    kinds: Sequence[Fault] = ALL_FAULTS
    network: Network | None = None
    counts: Counter[str] = attrs.field(factory=Counter)
    kills: int = 0

    def next(self) -> str:
        """Inflict a fault, and wait until all replicas are in sync; a line about it."""
        self.traffic.wait_for_acknowledgements(ACKNOWLEDGED_BEFORE)
        fault, event = self.chance.choice(self.kinds), self.chance.choice(_EVENTS)
        role, broker = self._choose()
        self._wait_for(event)
        began = time.monotonic()
        self.counts[fault] += 1
        _FAULTS[fault](self, broker)
        self.traffic.wait_until_in_sync()
        seconds = time.monotonic() - began
        at = f" at an event ({event})" if event else ""
        what = f"{fault} {broker} ({role}){at}, in sync after {seconds:.1f} s"
        return f"{what}; {self.kills} kills, {self.traffic.acknowledged} records acknowledged"

    def _choose(self) -> tuple[str, int]:
        """Choose a broker by its role."""
        role = self.chance.choice(("leader", *INTERNAL, "controller", "any"))
        if role == "controller":
            return role, self.cluster.wait_for_controller()
        topic = self.traffic.topics[0].name if role == "leader" else role
        partitions = self.cluster.states.assignment(topic)
        if not partitions:
            return "any", self.chance.choice(sorted(self.cluster.members))
        return role, self.cluster.wait_for_leader(topic, self.chance.choice(sorted(partitions)))

    def _wait_for(self, event: str) -> None:
        time.sleep(self.chance.uniform(0, _STOP_SECONDS))
        if event:
            self.trap.set_for(event)
            self.trap.wait(_EVENT_SECONDS_MAX)

    def _kill(self, broker: int) -> None:
        self.kills += 1
        self.cluster.kill(broker)

    def _return(self, broker: int) -> None:
        """Start a broker of which the session has ended or not."""
        self._pass(_SECONDS_AWAY)
        self.cluster.start(broker)

    def _pass(self, choices: Sequence[float]) -> None:
        """Let one of these times pass, in seconds."""
        time.sleep(self.chance.choice(choices))

    def kill(self, broker: int) -> None:
        self._kill(broker)
        self._return(broker)

    def stop(self, broker: int) -> None:
        if status := self.cluster.stop(broker):
            raise AssertionError(f"broker {broker} ended with {status} when it was stopped")
        self._return(broker)

    def pause(self, broker: int) -> None:
        self.cluster.pause(broker)
        self._pass(_SECONDS_PAUSED)
        self.cluster.resume(broker)

    def roll(self, broker: int) -> None:
        for each in sorted(self.cluster.members):
            self.stop(each)

    def kill_stopping(self, broker: int) -> None:
        with self._meanwhile(lambda: self.cluster.members[broker].stop()):
            time.sleep(self.chance.uniform(0, _STOP_SECONDS))
            self._kill(broker)
        self._return(broker)

    def kill_starting(self, broker: int) -> None:
        self._kill(broker)
        for _ in range(self.chance.randrange(1, 3)):
            member = self.cluster.members[broker]
            former = member.pid
            with self._meanwhile(member.start):
                time.sleep(self.chance.uniform(*_START_SECONDS))
                wait_until(lambda former=former, member=member: member.pid != former)  # type: ignore[misc]
                self._kill(broker)
        self._return(broker)

    def kill_two(self, broker: int) -> None:
        topic = self.traffic.topics[0].name
        self._kill(broker)
        if self.chance.random() < 0.7:
            other = self.cluster.wait_for_leader(topic, self.chance.randrange(PARTITIONS), other_than=broker)
        else:
            other = self.chance.choice(self.cluster.running)
        self._kill(other)
        for each in self.chance.sample([broker, other], 2):
            self._return(each)

    def kill_all(self, broker: int) -> None:
        for each in self.chance.sample(self.cluster.running, len(self.cluster.running)):
            self._kill(each)
        self.cluster.start_all()

    def reassign(self, broker: int) -> None:
        topic, partition = self.traffic.topics[0].name, self.chance.randrange(PARTITIONS)
        target = self.chance.sample(sorted(self.cluster.members), REASSIGNED_REPLICAS)
        self.cluster.states.reassign(topic, partition, target)
        if self.chance.random() < 0.5:
            time.sleep(self.chance.uniform(0, _STOP_SECONDS))
            self.kill(broker)
        self.cluster.wait_until_reassigned(topic, partition, *target)

    def cut(self, broker: int) -> None:
        other = self._other(broker)
        with self._cut() as network:
            network.cut(broker, other)
            if self.chance.random() < 0.5:
                network.cut(other, broker)

    def cut_metadata(self, broker: int) -> None:
        with self._cut() as network:
            cluster = self.cluster
            network.isolate(broker, cluster.quorum.controllers if isinstance(cluster, QuorumCluster) else [ZOOKEEPER])

    def isolate(self, broker: int) -> None:
        with self._cut() as network:
            network.isolate(broker)

    def cut_and_kill(self, broker: int) -> None:
        other, victim = self.chance.sample(sorted(self.cluster.members.keys() - {broker}), 2)
        with self._cut() as network:
            network.isolate(broker, [other])
            self._kill(victim)
        self._return(victim)

    def kill_controller(self, broker: int) -> None:
        quorum = self._controllers()
        controller = quorum.wait_for_active()
        self.kills += 1
        quorum.kill(controller)
        self._pass(_SECONDS_AWAY)
        quorum.start(controller)

    def pause_controller(self, broker: int) -> None:
        quorum = self._controllers()
        controller = quorum.wait_for_active()
        quorum.pause(controller)
        self._pass(_SECONDS_PAUSED)
        quorum.resume(controller)

    def roll_controllers(self, broker: int) -> None:
        quorum = self._controllers()
        for controller in sorted(quorum.controllers):
            quorum.stop(controller)
            quorum.start(controller)

    def kill_controllers(self, broker: int) -> None:
        quorum = self._controllers()
        self.kills += len(quorum.running)
        quorum.kill_all()
        quorum.start_all()

    def isolate_controller(self, broker: int) -> None:
        controller = self._controllers().wait_for_active()
        with self._cut() as network:
            network.isolate(controller)

    def _controllers(self) -> ApacheQuorum:
        assert isinstance(self.cluster, QuorumCluster), "the cluster's controllers are brokers"
        return self.cluster.quorum

    def _other(self, broker: int) -> int:
        return self.chance.choice(sorted(self.cluster.members.keys() - {broker}))

    @contextmanager
    def _cut(self) -> Iterator[Network]:
        """Give the network, whose links are cut inside the block, and heal them after some seconds."""
        assert self.network is not None, "the cluster has no network whose links can be cut"
        yield self.network
        self._pass(_SECONDS_CUT)
        self.network.heal()

    @contextmanager
    def _meanwhile(self, call: Callable[[], object]) -> Iterator[None]:
        """Run a call in a thread, which fails when its broker is killed."""
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(call)
            yield
            with suppress(ProcessFailed, OSError):
                running.result()


_FAULTS: Final[Mapping[Fault, Callable[[Faults, int], None]]] = {
    Fault.KILL: Faults.kill,
    Fault.STOP: Faults.stop,
    Fault.PAUSE: Faults.pause,
    Fault.ROLL: Faults.roll,
    Fault.KILL_STOPPING: Faults.kill_stopping,
    Fault.KILL_STARTING: Faults.kill_starting,
    Fault.KILL_TWO: Faults.kill_two,
    Fault.KILL_ALL: Faults.kill_all,
    Fault.REASSIGN: Faults.reassign,
    Fault.CUT: Faults.cut,
    Fault.CUT_METADATA: Faults.cut_metadata,
    Fault.ISOLATE: Faults.isolate,
    Fault.CUT_AND_KILL: Faults.cut_and_kill,
    Fault.KILL_CONTROLLER: Faults.kill_controller,
    Fault.PAUSE_CONTROLLER: Faults.pause_controller,
    Fault.ROLL_CONTROLLERS: Faults.roll_controllers,
    Fault.KILL_CONTROLLERS: Faults.kill_controllers,
    Fault.ISOLATE_CONTROLLER: Faults.isolate_controller,
}
