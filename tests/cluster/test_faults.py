"""Brokers of a cluster die, stop and pause at random while clients work: nothing acknowledged is lost or changed.

With Apache Kafka's brokers in the same cluster, each of the two follows, leads and obeys the other.  The long run of
three brokers of this project is `python -m tests.crash --cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.faults import MOVES, PARTITIONS, REASSIGNED_REPLICAS, SETTINGS, SINGLE_FAULTS, Fault, Faults
from tests.cluster.members import Maker, apache, own
from tests.cluster.run import LEAST, PLANS, STALE_SECONDS, tree_run
from tests.cluster.traffic import Traffic, usual_plans
from tests.crash.workloads import Topic
from tests.crash.workloads.copier_processes import CopierProgram, java_4, librdkafka
from tests.crash.workloads.copying import Copying
from tests.crash.workloads.senders import confluent_beside_apache
from tests.crash.workloads.sharing import Sharing
from tests.crash.workloads.sharing import librdkafka as librdkafka_worker
from tests.crash.workloads.sharing import own as own_worker
from tests.support.budget import Budget

NewCluster = Callable[..., Cluster]

USUAL = (3, 12.0)  # kills, seconds until nothing is killed any more
THOROUGH = (60, 900.0)
RECORDS = 1000  # to copy
COPIERS = CopierProgram("mixed", (librdkafka, java_4), life_seconds=2.0)


def test_three_brokers(tmp_path: Path, tree_chroot: str, budget: Budget) -> None:
    """Faults with producers, groups, copiers and members of a share group, whose coordinators move."""
    kills, seconds = budget.of(USUAL, THOROUGH)
    records = budget.of(RECORDS, 10 * RECORDS)
    copying = Copying(records, [COPIERS], most=40, pause_ms=10)
    sharing = Sharing((librdkafka_worker, own_worker), STALE_SECONDS)
    run = tree_run(tmp_path, tree_chroot, [copying, sharing], budget.seed_of("faults of a cluster"))
    outcome = run.go(kills, seconds, fewest=1)
    print(outcome)
    assert outcome.violations == []
    assert outcome.number("kills") >= 1
    assert outcome.number("mixed: records copied") == records
    assert min(outcome.number(f"  of {plan.name}") for plan in PLANS) >= LEAST
    assert outcome.number("commits acknowledged") >= LEAST
    assert outcome.number("shared: records finished") >= LEAST


def test_one_broker_beside_two_of_apache(new_cluster_on_zookeeper: NewCluster, topic: str, budget: Budget) -> None:
    survive(new_cluster_on_zookeeper, (apache, apache, own), topic, budget, budget.of(5, 50))


@pytest.mark.parametrize("order", ["its controller", "our controller"])
def test_beside_brokers_of_an_old_release(
    new_cluster_on_zookeeper: NewCluster, topic: str, budget: Budget, order: str
) -> None:
    """All speak the protocol of release 2.7, which one of Apache's brokers is of."""
    if not budget.thorough:
        pytest.skip("the newer protocol is tested; this one needs --thorough")
    makers = (partial(apache, protocol="2.7"), partial(apache, release="kafka-2.7"), own)
    protocol = {"inter.broker.protocol.version": "2.7", "zookeeper.session.timeout.ms": "9000"}  # 2.7 starts slowly
    chosen = makers if order == "its controller" else (makers[2], *makers[:2])
    survive(new_cluster_on_zookeeper, chosen, topic, budget, 20, protocol)


def test_reassignments_while_all_replicas_must_be_in_sync(new_cluster: NewCluster, topic: str, budget: Budget) -> None:
    """Each partition ends with as many replicas as must be in sync: one that is stuck stops the producers."""
    cluster = new_cluster(own, own, own, own, settings=SETTINGS)
    configs = {"min.insync.replicas": str(REASSIGNED_REPLICAS)}
    chance = budget.chance("reassignments")
    with Traffic(cluster, [Topic(topic, PARTITIONS, configs)], seed=chance.randrange(1 << 30)) as traffic:
        faults = Faults(cluster, traffic, chance, kinds=[Fault.REASSIGN])
        print(faults.next())
        faults.kinds = MOVES
        for _ in range(budget.of(3, 50)):
            print(faults.next())
        traffic.finish()
    assert traffic.violations() == []


def test_our_controller_over_two_of_apache(new_cluster_on_zookeeper: NewCluster, topic: str, budget: Budget) -> None:
    """Broker 1 starts first, so it is the controller."""
    survive(new_cluster_on_zookeeper, (own, apache, apache), topic, budget, budget.of(5, 30))


def survive(
    new_cluster: NewCluster,
    makers: Sequence[Maker],
    topic: str,
    budget: Budget,
    rounds: int,
    settings: Mapping[str, str] | None = None,
) -> None:
    cluster = new_cluster(*makers, settings={**SETTINGS, **(settings or {})})
    chance = budget.chance("faults of a cluster")
    topics = [Topic(topic, PARTITIONS)]
    plans = usual_plans(*topics, client=confluent_beside_apache)
    with Traffic(cluster, topics, chance.randrange(1 << 30), plans) as traffic:
        faults = Faults(cluster, traffic, chance, kinds=SINGLE_FAULTS)
        for _ in range(rounds):
            print(faults.next())
        traffic.finish()
    assert traffic.violations() == []
