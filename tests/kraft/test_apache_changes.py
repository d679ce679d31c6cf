"""Members of a cluster of Kafka 4.4 live through changes of its features, and through their own unregistration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.clients.admin import eventually
from tests.cluster.cluster import known_brokers
from tests.kraft.cluster import QuorumCluster, kraft_apache, kraft_own
from tests.peers.tools import tool
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.process]
RELEASE = "kafka-4.4"
FEATURES = {
    "metadata.version": 33,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "transaction.version": 2,
    "share.version": 2,
    "streams.version": 1,
}
OWN, OTHER, APACHE = 1, 2, 3


def features(cluster: QuorumCluster, *arguments: str, check: bool = True) -> str:
    address = cluster.members[OWN].bootstrap
    done = tool("kafka-features", "--bootstrap-server", address, *arguments, check=check, release=RELEASE)
    return done.stdout + done.stderr


def levels(cluster: QuorumCluster) -> dict[str, str]:
    return dict(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", features(cluster, "describe")))


def test_features_rise_while_members_run(tmp_path: Path, topic: str) -> None:
    """A cluster as of 3.9 becomes one of 4.4: KIP-848, transactions v2, share groups."""
    formatted = ("--release-version", "3.9-IV0")
    makers = [kraft_own, kraft_own, kraft_apache]
    with QuorumCluster.on_controllers(tmp_path, makers, RELEASE, formatted=formatted) as cluster:
        cluster.create(topic, replicas=[[OWN, APACHE], [APACHE, OTHER]])
        cluster.produce(topic, b"before")
        assert levels(cluster)["metadata.version"] == "3.9-IV0"
        assert read_with_consumer_protocol(cluster, topic, check=False) == []
        upgrades = [option for name, level in FEATURES.items() for option in ("--feature", f"{name}={level}")]
        features(cluster, "upgrade", *upgrades)
        expected = {**{name: str(level) for name, level in FEATURES.items()}, "metadata.version": "4.4-IV2"}
        eventually(lambda: {name: levels(cluster).get(name) for name in FEATURES}, expected)
        cluster.produce(topic, b"after", idempotent=True)
        assert read_with_consumer_protocol(cluster, topic) == ["before", "after"]
        for number in (OWN, OTHER):
            assert cluster.stop(number) == 0
            cluster.start(number)
        cluster.wait_until_in_sync(topic)
        assert read_with_consumer_protocol(cluster, topic) == ["before", "after"]
    assert [lines for lines in cluster.errors.values() if lines] == []


def read_with_consumer_protocol(cluster: QuorumCluster, topic: str, *, check: bool = True) -> list[str]:
    """Read all records as a member of a group of KIP-848."""
    options = ("--topic", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "120000")
    protocol = ("--command-property", "group.protocol=consumer")
    address = ("--bootstrap-server", cluster.members[OWN].bootstrap)
    done = tool("kafka-console-consumer", *address, *options, *protocol, check=check, release=RELEASE)
    return done.stdout.splitlines()


def test_a_member_that_is_unregistered_registers_again(tmp_path: Path, topic: str) -> None:
    with QuorumCluster.on_controllers(tmp_path, [kraft_own, kraft_own], RELEASE) as cluster:
        cluster.create(topic, replicas=[[OWN, OTHER]])
        address = cluster.members[OTHER].bootstrap
        done = tool("kafka-cluster", "unregister", "--bootstrap-server", address, "--id", str(OWN), release=RELEASE)
        assert f"Broker {OWN} is no longer registered." in done.stdout
        pattern = re.compile(r"membership in the cluster: active, broker epoch (\d+)")

        def epochs() -> list[str]:
            return [match[1] for line in cluster.members[OWN].log_lines() if (match := pattern.search(line))]

        wait_until(lambda: len(set(epochs())) == 2, 120, epochs)
        wait_until(lambda: OWN in known_brokers(address))
        cluster.wait_until_in_sync(topic)
        cluster.produce(topic, b"value")
