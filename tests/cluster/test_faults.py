"""Brokers of a cluster die, stop and pause at random while clients work: nothing acknowledged is lost or changed.

With Apache Kafka's brokers in the same cluster, each of the two follows, leads and obeys the other.  The long run of
three brokers of this project is `python -m tests.crash --cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.faults import PARTITIONS, SETTINGS, SINGLE_FAULTS, Faults
from tests.cluster.members import Maker, apache, own
from tests.cluster.run import PLANS, ClusterRun
from tests.cluster.traffic import Traffic
from tests.crash.workloads import Topic
from tests.crash.workloads.copier_processes import CopierProgram, java_4, librdkafka
from tests.crash.workloads.copying import Copying
from tests.support.budget import Budget

NewCluster = Callable[..., Cluster]

USUAL = (3, 12.0)  # kills, seconds until nothing is killed any more
THOROUGH = (60, 900.0)
RECORDS = 1000  # to copy
COPIERS = CopierProgram("mixed", (librdkafka, java_4), life_seconds=2.0)


def test_three_brokers(tmp_path: Path, tree_chroot: str, budget: Budget) -> None:
    """With producers, groups, and copiers whose coordinators move."""
    kills, seconds = budget.of(USUAL, THOROUGH)
    records = budget.of(RECORDS, 10 * RECORDS)
    copying = Copying(records, [COPIERS], most=40, pause_ms=10)
    run = ClusterRun(tmp_path, tree_chroot, [copying], budget.seed_of("faults of a cluster"))
    outcome = run.go(kills, seconds, fewest=1)
    print(outcome)
    assert outcome.violations == []
    assert outcome.number("kills") >= 1
    assert outcome.number("mixed: records copied") == records
    assert min(outcome.number(f"  of {plan.name}") for plan in PLANS) > 10
    assert outcome.number("commits acknowledged") > 10


def test_one_broker_beside_two_of_apache(new_cluster_on_zookeeper: NewCluster, topic: str, budget: Budget) -> None:
    survive(new_cluster_on_zookeeper, (apache, apache, own), topic, budget, budget.of(5, 50))


def test_our_controller_over_two_of_apache(new_cluster_on_zookeeper: NewCluster, topic: str, budget: Budget) -> None:
    """Broker 1 starts first, so it is the controller."""
    survive(new_cluster_on_zookeeper, (own, apache, apache), topic, budget, budget.of(5, 30))


def survive(new_cluster: NewCluster, makers: Sequence[Maker], topic: str, budget: Budget, rounds: int) -> None:
    cluster = new_cluster(*makers, settings=SETTINGS)
    chance = budget.chance("faults of a cluster")
    with Traffic(cluster, [Topic(topic, PARTITIONS)], seed=chance.randrange(1 << 30)) as traffic:
        faults = Faults(cluster, traffic, chance, kinds=SINGLE_FAULTS)
        for _ in range(rounds):
            print(faults.next())
        traffic.finish()
    assert traffic.violations() == []
