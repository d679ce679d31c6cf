"""Two brokers of Apache Kafka write the same nodes to this project's server of ZooKeeper's protocol as to ZooKeeper.

Two brokers of this project leave the same nodes as those of Apache Kafka after the same life.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions
from kazoo.exceptions import NoNodeError

from tests.cluster.cluster import WAIT_SECONDS_MAX, Cluster
from tests.cluster.members import Maker, apache, own
from tests.support.shared_zookeeper import fresh_chroot, shared_zookeeper
from tests.support.waiting import wait_until
from tests.tree.tree_server import TreeServer

#: A slow machine ends no session of a live broker, and no broker leaves an ISR but by its death.
SETTINGS = {"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "60000", "min.insync.replicas": "1"}
#: Fields of Kafka's JSON that two runs never have in common.
VARIABLE = frozenset(("timestamp", "topic_id", "port", "endpoints"))
CLUSTER_ID = "/cluster/id"
DIRECTORIES = "/brokers/directories"
CONFIG_GROUPS = "/config/groups"
ORDERS, DELETED, OFFSETS = "orders", "deleted", "__consumer_offsets"


@attrs.frozen
class StoredNode:
    """A node's data and those parts of its stat that do not depend on the time."""

    data: Any
    version: int
    children_version: int
    acl_version: int
    is_ephemeral: bool
    acl: Sequence[Any]


def nodes(client: Any, path: str = "/") -> dict[str, StoredNode]:
    """Return all nodes at and below a path; a node that is deleted meanwhile is left out."""
    try:
        data, stat = client.get(path)
        acl, _ = client.get_acls(path)
        children = client.get_children(path)
    except NoNodeError:
        return {}
    found = {
        path: StoredNode(lasting(path, data), stat.version, stat.cversion, stat.aversion, stat.ephemeralOwner != 0, acl)
    }
    for child in children:
        found |= nodes(client, f"{path.rstrip('/')}/{child}")
    return found


def lasting(path: str, data: bytes | None) -> Any:
    """Return the data without what differs between two runs."""
    if data is None or not data.startswith(b"{"):
        return data
    fields = json.loads(data)
    hidden = VARIABLE | {"id"} if path == CLUSTER_ID else VARIABLE
    return {name: "..." if name in hidden else value for name, value in fields.items()}


def read(cluster: Cluster, topic: str, partition: int, count: int) -> list[bytes | None]:
    """Read records by librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "no commits",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        return [message.value() for message in consumer.consume(count, WAIT_SECONDS_MAX) if not message.error()]
    finally:
        consumer.close()


def alter_config(cluster: Cluster, kind: Any, name: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    cluster.admin.incremental_alter_configs([resource])[resource].result(WAIT_SECONDS_MAX)


def change_topics(cluster: Cluster) -> None:
    """Create two topics, give one of them another partition and other settings, and delete the other one."""
    cluster.create(ORDERS, partitions=2, configs={"retention.ms": "86400000"})
    cluster.create(DELETED)
    cluster.create(OFFSETS)  # Kafka itself would place it at random, and when librdkafka happens to look for a group
    grown = NewPartitions(ORDERS, 3, replica_assignment=[[1, 2]])
    cluster.admin.create_partitions([grown])[ORDERS].result(WAIT_SECONDS_MAX)
    wait_until(lambda: cluster.tree.state(ORDERS, 2) is not None, WAIT_SECONDS_MAX)
    cluster.wait_until_in_sync(ORDERS)
    alter_config(cluster, ConfigResource.Type.TOPIC, ORDERS, "max.message.bytes", "500000")
    alter_config(cluster, ConfigResource.Type.BROKER, "2", "background.threads", "3")
    cluster.admin.delete_topics([DELETED])[DELETED].result(WAIT_SECONDS_MAX)
    wait_until(lambda: DELETED not in cluster.tree.topics(), WAIT_SECONDS_MAX, cluster.tree.topics)


def without_directories(found: dict[str, StoredNode]) -> dict[str, StoredNode]:
    """Return the nodes that Apache Kafka's brokers have, too: this project's note which log directories there were."""
    others = {path: node for path, node in found.items() if not path.startswith(DIRECTORIES)}
    parent = others["/brokers"]
    return {**others, "/brokers": attrs.evolve(parent, children_version=parent.children_version - 1)}


def play(cluster: Cluster) -> None:
    """Change topics, then kill the controller, which leads partitions, and let it come back as a follower."""
    cluster.start(1)
    cluster.start(2)
    change_topics(cluster)
    cluster.produce(ORDERS, b"a", b"b")
    assert read(cluster, ORDERS, 0, 2) == [b"a", b"b"]
    assert (cluster.controller(), cluster.leader(ORDERS, 0)) == (1, 1)
    cluster.kill(1)
    assert cluster.wait_for_leader(ORDERS, 0) == 2
    assert cluster.wait_for_controller() == 2
    cluster.produce(ORDERS, b"c", idempotent=True)
    assert read(cluster, ORDERS, 0, 3) == [b"a", b"b", b"c"]
    cluster.start(1)
    for topic in (ORDERS, OFFSETS):
        cluster.wait_until_in_sync(topic)
    copies = cluster.replicas(ORDERS, 0)
    assert [record.value for record in copies[1]] == [b"a", b"b", b"c"]
    assert copies[1] == copies[2]


def nodes_of_a_cluster(directory: Path, address: str, maker: Maker = apache) -> dict[str, StoredNode]:
    """Return the nodes after the scenario, while both brokers run."""
    with fresh_chroot(address, directory.name) as chroot, ExitStack() as stack:
        cluster = Cluster.make(directory, chroot, [maker, maker], SETTINGS)
        stack.push(cluster)  # starts nothing: the first broker shall be the controller
        play(cluster)
        found = nodes(cluster.tree.client)
        stack.close()
        assert [lines for lines in cluster.errors.values() if lines] == []
        return found


@pytest.fixture(scope="module")
def nodes_of_apache(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> dict[str, StoredNode]:
    """Nodes of a cluster of Apache Kafka in ZooKeeper: both tests compare with them."""
    return nodes_of_a_cluster(tmp_path_factory.mktemp("apache"), shared_zookeeper(pytestconfig))


def test_apache_brokers_write_the_same_nodes_as_to_zookeeper(
    tmp_path: Path, nodes_of_apache: dict[str, StoredNode]
) -> None:
    server = TreeServer(tmp_path / "server")
    server.start()
    try:
        ours = nodes_of_a_cluster(tmp_path / "ours", server.address)
    finally:
        server.kill()
    assert ours == nodes_of_apache
    assert {"/controller", "/brokers/ids/1", "/brokers/ids/2", "/latest_producer_id_block"} < ours.keys()
    assert "Unhandled" not in (tmp_path / "server" / "server.log").read_text()


def test_our_brokers_leave_the_same_nodes_as_apaches(
    tmp_path: Path, pytestconfig: pytest.Config, nodes_of_apache: dict[str, StoredNode]
) -> None:
    ours = nodes_of_a_cluster(tmp_path / "own", shared_zookeeper(pytestconfig), own)
    assert DIRECTORIES in ours
    del ours[CONFIG_GROUPS]  # our brokers have settings of groups there
    ours["/config"] = attrs.evolve(ours["/config"], children_version=nodes_of_apache["/config"].children_version)
    assert without_directories(ours) == nodes_of_apache
