"""The life of a cluster that Apache Kafka 3.9.2 was recorded at: our controller writes what Apache's wrote."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from pylogbroker.controller.preferred_elections import ElectionKind
from pylogbroker.interfaces import Create
from pylogbroker.metadata import zk_schema
from pylogbroker.metadata.image import PartitionKey
from tests.controller.small_cluster import SmallCluster

LOG = Path(__file__).parents[3] / "shared" / "cluster" / "zk-transactions.txt"
ORDERS_ID = uuid.UUID(bytes=zk_schema.parse_id("K0QHHXQSTwafd7tGOXo1dA").bytes)
Written = dict[PartitionKey, tuple[int, int, int, list[int], int]]
"""Controller epoch, leader, leader epoch, ISR and the node's version."""


def states(cluster: SmallCluster, topic: str = "orders") -> list[tuple[int, int, int, list[int], int]]:
    return [
        (state.controller_epoch, state.leader, state.leader_epoch, list(state.isr), state.partition_epoch)
        for (name, _), state in sorted(cluster.states().items())
        if name == topic
    ]


def replicas(cluster: SmallCluster, name: str = "orders") -> bytes:
    node = cluster.tree.node(f"/brokers/topics/{name}")
    assert node
    return node.data


def expand(cluster: SmallCluster, broker: int) -> None:
    """Let each leader add the broker to its ISR."""
    for key, state in cluster.states().items():
        if broker in state.replicas and broker not in state.isr:
            cluster.alter_isr(key, [*state.isr, broker])


def shut_down(cluster: SmallCluster, broker: int) -> object:
    epoch = cluster.brokers[broker].epoch
    remaining = cluster.ask(lambda controller: controller.shut_down_broker(broker, epoch))
    cluster.settle()
    cluster.kill(broker)
    cluster.settle()
    return remaining


def restart(cluster: SmallCluster, broker: int) -> None:
    cluster.start(broker)
    cluster.settle()
    expand(cluster, broker)


def prefer(cluster: SmallCluster, key: PartitionKey) -> None:
    cluster.ask(lambda controller: controller.elect_leaders(ElectionKind.PREFERRED, [key]))


def live_through() -> SmallCluster:
    """Repeat the recorded life; after each step compare the tree with the recorded one."""
    cluster = SmallCluster()
    cluster.start(1, 2, 3)
    assert cluster.elect(1)
    feature = cluster.tree.node("/feature")
    assert feature
    assert feature.data == b'{"features":{},"version":2,"status":1}'

    cluster.create_topic("orders", [(1, 2, 3), (2, 3, 1)], ORDERS_ID)
    cluster.settle()
    assert states(cluster) == [(1, 1, 0, [1, 2, 3], 0), (1, 2, 0, [2, 3, 1], 0)]

    cluster.add_partition("orders", (3, 1, 2))
    cluster.settle()
    assert states(cluster)[2] == (1, 3, 0, [3, 1, 2], 0)

    cluster.kill(3)
    cluster.settle()
    assert states(cluster) == [(1, 1, 1, [1, 2], 1), (1, 2, 1, [2, 1], 1), (1, 1, 1, [1, 2], 1)]

    restart(cluster, 3)
    assert states(cluster) == [(1, 1, 1, [1, 2, 3], 2), (1, 2, 1, [2, 1, 3], 2), (1, 1, 1, [1, 2, 3], 2)]

    prefer(cluster, ("orders", 2))
    assert states(cluster)[2] == (1, 3, 2, [1, 2, 3], 3)

    assert shut_down(cluster, 2) == []
    assert states(cluster) == [(1, 1, 2, [1, 3], 3), (1, 3, 2, [1, 3], 3), (1, 3, 3, [1, 3], 4)]

    restart(cluster, 2)
    assert states(cluster) == [(1, 1, 2, [1, 3, 2], 4), (1, 3, 2, [1, 3, 2], 4), (1, 3, 3, [1, 3, 2], 5)]

    prefer(cluster, ("orders", 1))
    assert states(cluster)[1] == (1, 2, 3, [1, 3, 2], 5)

    shut_down(cluster, 2)
    restart(cluster, 2)
    prefer(cluster, ("orders", 1))
    assert states(cluster) == [(1, 1, 3, [1, 3, 2], 6), (1, 2, 5, [1, 3, 2], 8), (1, 3, 4, [1, 3, 2], 7)]

    cluster.alter_isr(("orders", 0), [1, 3])
    assert states(cluster)[0] == (1, 1, 3, [1, 3], 7)
    cluster.alter_isr(("orders", 0), [1, 3, 2])

    cluster.bounce(2)
    cluster.settle()
    assert states(cluster) == [(1, 1, 4, [1, 3], 9), (1, 3, 6, [1, 3], 9), (1, 3, 5, [1, 3], 8)]
    expand(cluster, 2)
    assert states(cluster) == [(1, 1, 4, [1, 3, 2], 10), (1, 3, 6, [1, 3, 2], 10), (1, 3, 5, [1, 3, 2], 9)]

    cluster.ask(lambda controller: controller.alter_reassignments({("orders", 0): (3, 2)}))
    assert states(cluster)[0] == (1, 3, 6, [3, 2], 12)
    assert replicas(cluster) == (
        b'{"partitions":{"0":[3,2],"1":[2,3,1],"2":[3,1,2]},"topic_id":"K0QHHXQSTwafd7tGOXo1dA",'
        b'"adding_replicas":{},"removing_replicas":{},"version":3}'
    )

    cluster.create_topic("gone", [(2, 3), (3, 1)])
    cluster.settle()
    assert states(cluster, "gone") == [(1, 2, 0, [2, 3], 0), (1, 3, 0, [3, 1], 0)]
    cluster.mark_deleted("gone")
    cluster.settle()
    assert not [path for path in cluster.tree.entries if "gone" in path]

    listed = zk_schema.encode_isr_changes([("orders", 1), ("orders", 2)])
    cluster.tree.apply([Create("/admin/preferred_replica_election", listed)])
    cluster.settle()
    assert states(cluster)[1] == (1, 2, 7, [1, 3, 2], 11)

    wanted = zk_schema.encode_reassignments({("orders", 0): (1, 2, 3)})
    cluster.tree.apply([Create("/admin/reassign_partitions", wanted)])
    cluster.settle()
    assert states(cluster)[0] == (1, 3, 7, [3, 2], 13)
    cluster.alter_isr(("orders", 0), [3, 2, 1])
    assert states(cluster)[0] == (1, 3, 8, [3, 2, 1], 15)
    assert b'"partitions":{"0":[1,2,3],' in replicas(cluster)
    assert not {"/admin/reassign_partitions", "/admin/preferred_replica_election"} & cluster.tree.entries.keys()

    cluster.create_topic("__consumer_offsets", [(3, 1, 2), (1, 2, 3), (2, 3, 1)])
    cluster.create_topic("__transaction_state", [(1, 3, 2), (2, 1, 3), (3, 2, 1)])
    cluster.settle()
    cluster.kill(1)
    assert cluster.elect(2)
    cluster.settle()
    assert states(cluster) == [(2, 3, 9, [3, 2], 16), (2, 2, 8, [3, 2], 12), (2, 3, 6, [3, 2], 10)]
    offsets = [(2, 3, 1, [3, 2], 1), (2, 2, 2, [2, 3], 2), (2, 2, 1, [2, 3], 1)]
    assert states(cluster, "__consumer_offsets") == offsets
    transactions = [(2, 3, 2, [3, 2], 2), (2, 2, 1, [2, 3], 1), (2, 3, 1, [3, 2], 1)]
    assert states(cluster, "__transaction_state") == transactions

    restart(cluster, 1)
    assert states(cluster) == [(2, 3, 9, [3, 2, 1], 17), (2, 2, 8, [3, 2, 1], 13), (2, 3, 6, [3, 2, 1], 11)]

    shut_down(cluster, 3)
    shut_down(cluster, 2)
    assert cluster.elect(1)
    cluster.settle()
    assert states(cluster) == [(2, 1, 11, [1], 19), (2, 1, 10, [1], 15), (2, 1, 8, [1], 13)]
    remaining = shut_down(cluster, 1)
    assert isinstance(remaining, list)
    assert len(remaining) == 9
    assert states(cluster) == [(2, 1, 11, [1], 19), (2, 1, 10, [1], 15), (2, 1, 8, [1], 13)]
    assert zk_schema.decode_controller_epoch(cluster.tree.entries["/controller_epoch"].data) == 3
    return cluster


def test_each_step() -> None:
    live_through()


def test_each_write() -> None:
    """Also states between the steps are those that Apache's controller wrote."""
    if not LOG.exists():
        pytest.skip("the recorded transactions are not there")
    text = LOG.read_text().partition("/ibp27")[0]
    cluster = live_through()
    for topic, count in (("orders", 3), ("__consumer_offsets", 3), ("__transaction_state", 3)):
        for number in range(count):
            path = f"/brokers/topics/{topic}/partitions/{number}/state"
            recorded = re.findall(re.escape(path) + r"[^{]{1,2}(\{[^}]*\})", text)
            written = [data.decode() for at, data in cluster.tree.history if at == path]
            assert written == recorded
    topics = re.findall(r"(?:create|setData)[: ]/brokers/topics/orders,?(\{.*?\"version\":3\})", text)
    assert [data.decode() for at, data in cluster.tree.history if at == "/brokers/topics/orders"] == topics
