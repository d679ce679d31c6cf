"""Three brokers whose leaders a test can move, and traffic that must survive it.

Node 1 is the controller: another node ends sooner.

ensemble.create(topic, partitions=3)
ensemble.leader(topic, 0)                   # a node's number
ensemble.move(topic, 0, 3)                  # node 3 leads now, and nobody has crashed
ensemble.kill(ensemble.leader(topic, 0))    # SIGKILL; returns when others lead what it led
ensemble.heal()                             # all run, and everything is in sync

All of it waits: on the reactor's thread call it with `deferToThread`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from pylogbroker.client.producer import Producer, RecordMetadata
from pylogbroker.client.simple_consumer import LATEST
from pylogbroker.client.sync import SimpleConsumer
from pylogbroker.errors import KafkaError
from tests.peers.kafka import KafkaCluster
from tests.support.reactor_run import sleep
from tests.support.waiting import wait_until

GROUPS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
#: that of `KafkaCluster`
INTERNAL_PARTITIONS = 3
WAIT_SECONDS_MAX = 120.0


@attrs.define
class MovableCluster:
    """A cluster, and who leads what in it."""

    cluster: KafkaCluster
    _admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        return self.cluster.address

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """A topic whose partition 0 is led by node 1, partition 1 by node 2, and so on."""
        nodes = [[1 + (first + each) % 3 for each in range(3)] for first in range(partitions)]
        config = {name.replace("_", "."): value for name, value in settings.items()}
        new = NewTopic(topic, partitions, replica_assignment=nodes, config=config)
        self.admin.create_topics([new])[topic].result(WAIT_SECONDS_MAX)
        wait_until(lambda: all(self._leads(replicas[0], topic, each) for each, replicas in enumerate(nodes)))

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        return self.admin.list_topics(topic, WAIT_SECONDS_MAX).topics[topic].partitions.get(partition)

    def leader(self, topic: str, partition: int) -> int:
        """Return its leader; -1 if it has none."""
        found = self.partition(topic, partition)
        return -1 if found is None else int(found.leader)

    def address(self, node: int) -> tuple[str, int]:
        host, _, port = self.cluster.nodes[node].address.partition(":")
        return host, int(port)

    def move(self, topic: str, partition: int, node: int, *others: int) -> None:
        """Let this node lead the partition, and the others, by default all, have it too."""
        others = others or tuple(each for each in (1, 2, 3) if each != node)
        key = TopicPartition(topic, partition)
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            [rejected] = admin.alter_partition_reassignments({key: [node, *others]}).values()
            assert rejected is None
            wait_until(lambda: not admin.list_partition_reassignments() and self._replicas(topic, partition)[0] == node)
            admin.elect_leaders(0, {topic: [partition]})
        finally:
            admin.close()
        wait_until(lambda: self._leads(node, topic, partition))

    def coordinate(self, topic: str, key: str, node: int) -> tuple[str, int]:
        """Let this node coordinate a group (GROUPS) or a transactional id (TRANSACTIONS); returns where it is kept."""
        where = topic, _positive_hash(key) % INTERNAL_PARTITIONS
        if self.leader(*where) != node:
            self.move(*where, node)
        return where

    def kill(self, node: int) -> None:
        """End a node at once, and wait until others lead what it led."""
        self.cluster.nodes[node].kill()
        wait_until(lambda: node not in {each.leader for each in self._partitions()})

    def heal(self) -> None:
        """Start what does not run, and wait until everything is in sync."""
        self.cluster.start()
        wait_until(lambda: all(len(each.isrs) == len(each.replicas) for each in self._partitions()))

    def _leads(self, node: int, topic: str, partition: int) -> bool:
        """True if others say that this node leads it, and it knows of that itself: either may be first."""
        if self.leader(topic, partition) != node:
            return False
        with SimpleConsumer(*self.address(node)) as consumer:
            try:
                consumer.get_offsets_before(topic, partition, LATEST)
            except KafkaError:
                return False
        return True

    def _replicas(self, topic: str, partition: int) -> list[int]:
        found = self.partition(topic, partition)
        return [] if found is None else list(found.replicas)

    def _partitions(self) -> list[PartitionMetadata]:
        topics = self.admin.list_topics(timeout=WAIT_SECONDS_MAX).topics.values()
        return [each for topic in topics for each in topic.partitions.values()]


def _positive_hash(text: str) -> int:
    """Return the absolute value of String.hashCode, by which Kafka chooses coordinators."""
    value = 0
    for character in text:
        value = value * 31 + ord(character) & 0xFFFFFFFF
    return min(value, (1 << 32) - value)


@attrs.define
class Traffic:
    """Numbered records to each partition of a topic."""

    producer: Producer
    topic: str
    partitions: int = 1
    sent: dict[int, list[bytes]] = attrs.field(factory=lambda: defaultdict(list))
    results: list[Deferred[RecordMetadata]] = attrs.field(factory=list)

    def send(self) -> None:
        """One record to each partition."""
        for partition in range(self.partitions):
            value = b"%d" % len(self.sent[partition])
            self.sent[partition].append(value)
            self.results.append(self.producer.send(self.topic, value, partition=partition))

    async def during(self, *steps: Callable[[], object]) -> None:
        """Send while these are done, one after the other, each in a thread, and a little longer."""
        for step in steps:
            busy = deferToThread(step)
            while not busy.called:
                self.send()
                await sleep(0.01)
            await busy
        for _ in range(20):
            self.send()
            await sleep(0.002)

    async def acknowledged(self) -> dict[int, list[bytes]]:
        """Return the sent records, once all are acknowledged."""
        await self.producer.flush()
        for each in self.results:
            await each
        return dict(self.sent)


def by_partition(messages: Iterable[Any]) -> dict[int, list[bytes]]:
    """Values as they came, and where from."""
    found: dict[int, list[bytes]] = defaultdict(list)
    for message in messages:
        found[message.partition].append(message.value)
    return dict(found)
