"""A long run: three brokers, faults at random, and clients of every sort that work meanwhile.

`python -m tests.crash --cluster` and a short test use it.  It ends at the first violation, after all kills, or when the
time is over.  Then the clients finish, and everything is checked, the replicas' files record by record.
"""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.cluster.cluster import Cluster
from tests.cluster.faults import ALL_FAULTS, NETWORK_FAULTS, PARTITIONS, SETTINGS, Fault, Faults
from tests.cluster.members import own
from tests.cluster.network import Network
from tests.cluster.traffic import SEATS, Traffic, usual_plans
from tests.crash.checks import Violation
from tests.crash.history import Promise
from tests.crash.kill_moments import EventWaiter
from tests.crash.killed_broker import CONSUMER_GROUPS
from tests.crash.run import Outcome
from tests.crash.workloads import Topic, Workload, sharing
from tests.crash.workloads.consuming import Seat, confluent_of_kip_848
from tests.crash.workloads.copier_processes import CopierProgram, java_4, librdkafka
from tests.crash.workloads.copying import Copying
from tests.crash.workloads.java_sender import java
from tests.crash.workloads.producing import Plan
from tests.crash.workloads.sharing import Sharing

BROKERS: Final = 3
LEAST: Final = 11  # acknowledgements of each producer, and commits, before the first fault
TOPIC: Final = Topic("orders", PARTITIONS, {"segment.bytes": "1000000"})
FINISH_SECONDS_MAX: Final = 120.0
FAILED_SECONDS_MAX: Final = 3.0  # in which clients finish, once something is wrong
#: One group of all clients.
COPIERS: Final = CopierProgram("mixed", (librdkafka, librdkafka, java_4), life_seconds=6.0)
SEATS_OF_BOTH: Final = (*SEATS, Seat("group-848", confluent_of_kip_848), Seat("group-848", confluent_of_kip_848))
"""Consumers, some of whom are in a group whose broker assigns."""
STALE_SECONDS: Final = 15.0
"""Time in which a leader that was paused or cut off may go on, though another one leads."""
_RECORDS_PER_KILL: Final = 600  # to copy: about what copiers achieve
PLANS: Final = (*usual_plans(TOPIC), Plan("java-once-lz4", java, Promise.ONCE, "all", "lz4", (TOPIC,)))
Report = Callable[[str], None]


def all_copiers(kills: int) -> Copying:
    """Return copiers that are busy while so many brokers are killed."""
    return Copying(_RECORDS_PER_KILL * kills, [COPIERS], most=30, pause_ms=60)


def all_share_members() -> Sharing:
    """Return members of a share group."""
    return Sharing(sharing.ALL_CLIENTS, STALE_SECONDS)


@attrs.define
class ClusterRun:
    """A cluster in a directory; a seed decides about faults and what is sent.

    `new_cluster` gets settings of all its brokers. With a network, links are cut too.
    """

    directory: Path
    new_cluster: Callable[[Mapping[str, str]], Cluster]
    others: Sequence[Workload]
    seed: int
    report: Report = print
    network: Network | None = None
    kinds: Sequence[Fault] = ALL_FAULTS
    plans: Sequence[Plan] = PLANS
    seats: Sequence[Seat] = SEATS_OF_BOTH
    topic: Topic = TOPIC
    settings: Mapping[str, str] = attrs.field(factory=dict)
    _violations: list[Violation] = attrs.field(factory=list)

    def go(self, kills: int, seconds: float, fewest: int = 0) -> Outcome:
        """Inflict faults: so many kills, or for so long, but as many kills as the fewest in any case; then check."""
        begun = began_to_kill = time.monotonic()
        self.report(f"{kills} kills are wanted, within {seconds:g} s")
        chance = random.Random(self.seed)
        trap = EventWaiter(lambda: None)
        settings = {**SETTINGS, **CONSUMER_GROUPS, **sharing.SETTINGS, "api.versions.release": "4.4", **self.settings}
        cluster = self.new_cluster(settings)
        traffic = Traffic(
            cluster, [self.topic], chance.randrange(1 << 30), self.plans, self.seats, self.others, trap.met
        )
        faults = Faults(cluster, traffic, chance, trap, self.kinds, self.network)
        with cluster:
            self._attempt(traffic.start)
            if not self._violations:
                self._attempt(lambda: traffic.wait_until_busy(LEAST))
            began_to_kill = time.monotonic()
            while faults.kills < kills and not self._violations:
                if time.monotonic() - began_to_kill > seconds and faults.kills >= fewest:
                    break
                self._attempt(lambda: self._inflict(faults, begun))
            self.report(f"{time.monotonic() - begun:.0f} s: clients finish, then everything is checked")
            self._attempt(lambda: traffic.finish(FAILED_SECONDS_MAX if self._violations else FINISH_SECONDS_MAX))
            if not self._violations:
                self._attempt(lambda: self._note(*traffic.violations()))
        self._note(*(Violation("complaint", line) for lines in cluster.errors.values() for line in lines))
        if self._violations:
            (self.directory / "violations.txt").write_text("\n".join(map(str, self._violations)))
        return Outcome(self._violations, self._figures(faults, round(time.monotonic() - begun)))

    def _inflict(self, faults: Faults, begun: float) -> None:
        line = faults.next()
        self.report(f"{time.monotonic() - begun:.0f} s: {line}")
        self._note(*faults.traffic.problems())

    def _attempt(self, call: Callable[[], object]) -> None:
        """Call; an error is a violation."""
        try:
            call()
        except Exception as error:
            self._note(Violation("harness", "".join(traceback.format_exception(error))))

    def _note(self, *violations: Violation) -> None:
        self._violations.extend(violations)

    def _figures(self, faults: Faults, seconds: int) -> dict[str, int | float]:
        history = faults.traffic.history
        acknowledged = Counter[str]()
        for sent in history.sent.values():
            acknowledged[sent.producer] += sent.acknowledged
        return {
            "seconds": seconds,
            "faults": faults.counts.total(),
            "kills": faults.kills,
            **{f"  {name}": count for name, count in sorted(faults.counts.items())},
            "records acknowledged": acknowledged.total(),
            **{f"  of {name}": count for name, count in acknowledged.items()},
            **{f"  read by {name}": count for name, count in sorted(history.readers.items())},
            "commits acknowledged": sum(one.count for one in history.committed.values()),
            **{name: value for workload in self.others for name, value in workload.figures().items()},
        }


def tree_run(
    directory: Path,
    zookeeper: str,
    others: Sequence[Workload],
    seed: int,
    report: Report = print,
    network: Network | None = None,
) -> ClusterRun:
    """Return a run of brokers of this project on a chroot of a ZooKeeper."""

    def new_cluster(settings: Mapping[str, str]) -> Cluster:
        return Cluster.make(directory, zookeeper, [own] * BROKERS, settings, network)

    kinds = ALL_FAULTS if network is None else (*ALL_FAULTS, *NETWORK_FAULTS)
    return ClusterRun(directory, new_cluster, others, seed, report, network, kinds)
