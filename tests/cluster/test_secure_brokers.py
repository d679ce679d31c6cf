"""Brokers of this project and of Apache Kafka that authenticate to each other, and to ZooKeeper."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import attrs
import pytest

from pylogbroker.config.mechanisms import SCRAM_SHA_512
from pylogbroker.security.sasl.stored_credentials import encode
from pylogbroker.security.sasl.users import ScramKeys
from tests.cluster.cluster import Cluster
from tests.cluster.members import CALM, ClusterBroker, Maker, Place, apache, own
from tests.peers import available
from tests.peers.processes import free_ports
from tests.support.certificates import Certificates
from tests.support.waiting import wait_until
from tests.tree.secure_zookeeper import secure_zookeeper

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="secret";'
SETTINGS = {
    **CALM,
    "inter.broker.listener.name": "BROKERS",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:broker;User:CN=broker;User:ANONYMOUS",  # the last is the test, on the other listener
    "min.insync.replicas": "3",
}
BY_PASSWORD = {
    "sasl.enabled.mechanisms": SCRAM_SHA_512,
    "sasl.mechanism.inter.broker.protocol": SCRAM_SHA_512,
    "listener.name.brokers.scram-sha-512.sasl.jaas.config": LOGIN,
}
BY_CERTIFICATE = {"listener.name.brokers.ssl.client.auth": "required"}


def secured(maker: Maker, port: int, place: Place) -> ClusterBroker:
    """Make a broker with a listener for brokers, besides the one for clients."""
    listeners = f"PLAINTEXT://127.0.0.1:{place.port},BROKERS://127.0.0.1:{port}"
    return maker(attrs.evolve(place, settings={**place.settings, "listeners": listeners}))


def add_user(cluster: Cluster) -> None:
    """Write the credentials of the brokers, before the first one starts."""
    keys = encode(ScramKeys.derive(SCRAM_SHA_512, "secret", b"salt of the brokers", 4096))
    node = json.dumps({"version": 1, "config": {SCRAM_SHA_512: keys}}).encode()
    cluster.tree.client.create("/config/users/broker", node, makepath=True)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL", "SSL"])
def test_records_are_replicated_in_all_directions(tmp_path: Path, zookeeper_chroot: str, protocol: str) -> None:
    settings = {**SETTINGS, "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,BROKERS:{protocol}"}
    settings |= BY_CERTIFICATE if protocol == "SSL" else BY_PASSWORD
    if protocol != "SASL_PLAINTEXT":
        settings |= Certificates(tmp_path / "certificates").broker
    makers = [partial(secured, maker, port) for maker, port in zip((apache, own, own), free_ports(3), strict=True)]
    cluster = Cluster.make(tmp_path, zookeeper_chroot, makers, settings)
    add_user(cluster)
    with cluster:
        cluster.create("t", partitions=3)
        assert sorted(cluster.leader("t", partition) for partition in range(3)) == [1, 2, 3]
        for partition in range(3):
            cluster.produce("t", b"first", partition=partition)
        controller = cluster.controller()
        assert cluster.stop(controller) == 0
        wait_until(lambda: cluster.controller() not in (controller, -1))
        cluster.start(controller)
        cluster.wait_until_in_sync("t")
        for partition in range(3):
            cluster.produce("t", b"second", partition=partition)
            replicas = cluster.replicas("t", partition)
            assert sorted(replicas) == [1, 2, 3]
            assert [[record.value for record in each] for each in replicas.values()] == [[b"first", b"second"]] * 3
    assert not [lines for lines in cluster.errors.values() if lines]


def with_tree(maker: Maker, address: str, place: Place) -> ClusterBroker:
    """Make a broker that connects to another address of ZooKeeper."""
    return maker(attrs.evolve(place, zookeeper=address))


def test_brokers_connect_to_zookeeper_by_tls(tmp_path: Path) -> None:
    """The port for TLS lets those in alone who show a certificate."""
    with secure_zookeeper(tmp_path) as server:
        address = f"127.0.0.1:{server.tls_port}"
        makers = [partial(with_tree, maker, address) for maker in (apache, own)]
        settings = {"min.insync.replicas": "2", "replica.lag.time.max.ms": "120000", **server.client_settings}
        with Cluster.make(tmp_path, server.plain, makers, settings) as cluster:
            cluster.create("t", partitions=2)
            for partition in range(2):
                cluster.produce("t", b"first", partition=partition)
            cluster.kill(cluster.controller())
            wait_until(lambda: cluster.controller() in cluster.running)
            cluster.start_all()
            cluster.wait_until_in_sync("t")
            for partition in range(2):
                cluster.produce("t", b"second", partition=partition)
                replicas = cluster.replicas("t", partition)
                assert [[record.value for record in each] for each in replicas.values()] == [[b"first", b"second"]] * 2
