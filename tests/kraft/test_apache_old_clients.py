"""Clients of Kafka 0.8 and 0.10 use a cluster of Kafka 4.4, which rejects them, through members of this project."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.kraft.cluster import QuorumCluster, kraft_apache, kraft_own
from tests.peers import old_tools
from tests.peers.maven import PeerError
from tests.peers.tools import tool
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.process]
SECONDS = 120
APACHE, MEMBER = 1, 2
OF_0_10 = {"api.version.request": False, "broker.version.fallback": "0.10.0.1", "log_level": 0}


def test_old_clients_beside_those_of_4_4(tmp_path: Path, topic: str) -> None:
    """A member leads the topic, a broker of Kafka 4.4 follows, and then leads it."""
    makers = [kraft_apache, kraft_own]
    with QuorumCluster.on_controllers(tmp_path, makers, "kafka-4.4") as cluster:
        member, apache = (cluster.members[number].bootstrap for number in (MEMBER, APACHE))
        cluster.create(topic, replicas=[[MEMBER, APACHE]])
        old_tools.write(member, topic, ["of 0.8"])
        producer = Producer({**OF_0_10, "bootstrap.servers": member, "acks": "all"})
        producer.produce(topic, b"of 0.10", partition=0)
        assert producer.flush(SECONDS) == 0
        written = tool("kafka-console-producer", *to(member, topic), input="of 4.4\n", release="kafka-4.4")
        assert "ERROR" not in written.stdout + written.stderr
        values = ["of 0.8", "of 0.10", "of 4.4"]
        assert old_tools.read(member, topic, 0, len(values)) == values
        assert read_by_4_4(member, topic, len(values), "--from-beginning") == values
        lead_groups(cluster)
        assert read_by_0_10(member, topic, len(values)) == values
        cluster.wait_until_in_sync(topic)
        assert cluster.stop(MEMBER) == 0
        wait_until(lambda: cluster.leader(topic, 0) == APACHE)
        assert read_by_4_4(apache, topic, len(values), "--partition", "0", "--offset", "earliest") == values
        with pytest.raises(PeerError):
            old_tools.write(apache, topic, ["rejected"])


def to(bootstrap: str, topic: str) -> tuple[str, ...]:
    return "--bootstrap-server", bootstrap, "--topic", topic


def read_by_0_10(bootstrap: str, topic: str, count: int) -> list[str]:
    """Read as the one member of a group, and commit."""
    settings = {**OF_0_10, "bootstrap.servers": bootstrap, "group.id": "old", "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "session.timeout.ms": 30_000})
    consumer.subscribe([topic])
    messages = consumer.consume(count, SECONDS)
    consumer.commit(asynchronous=False)
    [committed] = consumer.committed([TopicPartition(topic, 0)], SECONDS)
    assert committed.offset == count
    consumer.close()
    return [str(message.value(), "utf-8") for message in messages]


def lead_groups(cluster: QuorumCluster) -> None:
    """Let the member coordinate all groups."""
    offsets = "__consumer_offsets"
    wait_until(lambda: offsets in cluster.states.topics())
    for partition in cluster.states.assignment(offsets):
        cluster.states.reassign(offsets, partition, [MEMBER, APACHE])
        cluster.wait_until_reassigned(offsets, partition, MEMBER, APACHE)
    cluster.wait_until_in_sync(offsets)
    everywhere = ("--election-type", "preferred", "--all-topic-partitions")
    tool("kafka-leader-election", "--bootstrap-server", cluster.members[MEMBER].bootstrap, *everywhere)
    wait_until(lambda: {cluster.leader(offsets, number) for number in cluster.states.assignment(offsets)} == {MEMBER})


def read_by_4_4(bootstrap: str, topic: str, count: int, *place: str) -> list[str]:
    ends = ("--max-messages", str(count), "--timeout-ms", str(SECONDS * 1000))
    options = (*to(bootstrap, topic), *place, *ends)
    return tool("kafka-console-consumer", *options, release="kafka-4.4").stdout.splitlines()
