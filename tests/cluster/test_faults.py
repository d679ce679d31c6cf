"""Brokers of a cluster die, stop and pause at random while producers work: nothing acknowledged is lost or changed.

With Apache Kafka's brokers in the same cluster, each of the two follows, leads and obeys the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.cluster.cluster import Cluster
from tests.cluster.faults import PARTITIONS, SETTINGS, run_faults
from tests.cluster.members import Maker, apache, own
from tests.cluster.traffic import Traffic
from tests.crash.workloads import Topic
from tests.support.budget import Budget

NewCluster = Callable[..., Cluster]


def test_three_brokers(new_cluster: NewCluster, topic: str, budget: Budget) -> None:
    survive(new_cluster, (own, own, own), topic, budget, budget.of(3, 60))


def test_one_broker_beside_two_of_apache(new_cluster: NewCluster, topic: str, budget: Budget) -> None:
    survive(new_cluster, (apache, apache, own), topic, budget, budget.of(5, 50))


def test_our_controller_over_two_of_apache(new_cluster: NewCluster, topic: str, budget: Budget) -> None:
    """Broker 1 starts first, so it is the controller."""
    survive(new_cluster, (own, apache, apache), topic, budget, budget.of(5, 30))


def survive(new_cluster: NewCluster, makers: Sequence[Maker], topic: str, budget: Budget, rounds: int) -> None:
    cluster = new_cluster(*makers, settings=SETTINGS)
    chance = budget.chance("faults of a cluster")
    with Traffic(cluster, [Topic(topic, PARTITIONS)], seed=chance.randrange(1 << 30)) as traffic:
        for line in run_faults(cluster, topic, traffic, chance, rounds):
            print(line)
        traffic.finish()
    assert traffic.violations() == []
