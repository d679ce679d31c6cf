"""Producers work while two brokers of Apache Kafka are killed: nothing is lost, and a loss would be seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import attrs
import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.members import apache
from tests.cluster.replica_logs import LogRecord
from tests.cluster.traffic import Traffic, check_replicas, usual_plans
from tests.cluster.tree import Tree
from tests.crash.content import whole_entries
from tests.crash.history import Promise
from tests.crash.stamps import Stamp
from tests.crash.workloads import Topic
from tests.crash.workloads.producing import Plan
from tests.crash.workloads.senders import Delivered, confluent_beside_apache
from tests.support.waiting import wait_until

PARTITIONS = 2


def test_no_acknowledged_record_is_lost_when_leaders_die(
    new_cluster_on_zookeeper: Callable[..., Cluster], topic: str
) -> None:
    cluster = new_cluster_on_zookeeper(apache, apache)
    topics = [Topic(topic, PARTITIONS)]
    with Traffic(cluster, topics, 1, usual_plans(*topics, client=confluent_beside_apache)) as traffic:
        for number in (2, 1):  # one of them is the controller
            traffic.wait_for_acknowledgements(100)
            cluster.kill(number)
            for partition in range(PARTITIONS):
                assert cluster.wait_for_leader(topic, partition) != number
            traffic.wait_for_acknowledgements(100)
            traffic.check()
            cluster.start(number)
            cluster.wait_until_in_sync(topic)
        wait_until(lambda: min(traffic.history.readers[each] for each in ("alone", "group")) >= 400)
    assert traffic.violations() == []
    assert traffic.acknowledged >= 400
    lose_a_record(cluster, topic)
    assert "damaged" in {violation.kind for violation in traffic.violations()}
    fresh = Traffic(cluster, traffic.topics, seed=1, history=traffic.history)  # has not read the logs before
    found = fresh.violations()
    assert {violation.kind for violation in found} == {"lost", "unseen"}, found[-1]


def lose_a_record(cluster: Cluster, topic: str) -> None:
    """Remove the last entry of a replica's file while its broker is dead, and make it the leader."""
    cluster.stop(1)
    cluster.stop(2)
    member = cluster.members[2]
    path = max(member.partition_dir(topic, 0).glob("*.log"))
    *kept, _ = whole_entries(path.read_bytes())
    path.write_bytes(b"".join(kept))
    cluster.start(2)
    cluster.wait_for_leader(topic, 0)
    cluster.start(1)


class EndingSender:
    """Producer of a client that raises."""

    def __init__(self, bootstrap: str, promise: Promise, acks: str, codec: str) -> None:
        pass

    def send(self, stamp: Stamp, filling: str, delivered: Delivered) -> None:
        raise LookupError("no such topic")

    def work(self, seconds: float) -> None:
        pass

    def close(self, seconds: float) -> None:
        pass


def test_nothing_waits_for_a_producer_that_has_ended(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, {}, states=cast(Tree, None))
    plan = Plan("ending", EndingSender, Promise.ONCE, "all", "none", (Topic("orders", 1),))
    traffic = Traffic(cluster, [], 1, [plan], seats=()).start()
    with pytest.raises(AssertionError, match="no such topic"):
        traffic.wait_for_acknowledgements(1)


SERVED = [LogRecord(offset, offset, b"key", b"value", leader_epoch=1) for offset in range(3)]


@pytest.mark.parametrize(
    ("replica", "kinds"),
    [
        (SERVED, []),
        (SERVED[:2], ["absent"]),
        ([*SERVED[:2], attrs.evolve(SERVED[2], value=b"other")], ["diverged", "epoch conflict"]),
        ([*SERVED, attrs.evolve(SERVED[2], offset=3)], ["absent"]),  # consumers do not get it
    ],
)
def test_replicas_are_compared_with_the_served_log(replica: list[LogRecord], kinds: list[str]) -> None:
    assert [each.kind for each in check_replicas(("topic", 0), SERVED, {1: SERVED, 2: replica})] == kinds
