"""A node with replicas of topics that have another replica elsewhere, without a cluster: orders come from the test."""

from __future__ import annotations

import uuid
from typing import Any

from pylogbroker.broker.replication.leader_requests import FetcherSettings
from pylogbroker.broker.replication.leadership import Leadership
from pylogbroker.broker.replication.replicas import Replicas, ReplicaSettings
from pylogbroker.config import Listener
from pylogbroker.metadata.delta import BrokerRegistered, Delta, PartitionsChanged, TopicCreated
from pylogbroker.metadata.image import BrokerListener, BrokerRegistration, PartitionState, TopicImage
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.replication import FetchFrom, FollowerFetch, IsrChange
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.wire.messages.fetch import PartitionData
from tests.broker.nodes import NODE_ID, PORT, NodeTests
from tests.broker.trees import now

OTHER = NODE_ID + 1
TOPIC_ID = uuid.UUID(int=77)


def broker(broker_id: int, rack: str | None = None, *listeners: str) -> BrokerRegistration:
    """A registration with addresses on these listeners, by default on PLAINTEXT."""
    addresses = {
        name: BrokerListener(f"host-{broker_id}", PORT + broker_id, "PLAINTEXT") for name in listeners or ["PLAINTEXT"]
    }
    return BrokerRegistration(broker_id, 10 * broker_id, addresses, rack)


class Proposals:
    """Notes changes of ISRs; nobody answers."""

    def __init__(self) -> None:
        self.changes: list[IsrChange] = []

    def propose(self, leadership: Leadership, change: IsrChange, delay_ms: int) -> None:
        self.changes.append(change)


def unconnected(leader: int, fetcher: int, /) -> Any:
    raise NotConnected("the test fetches")


class ReplicaTests(NodeTests):
    """Topic `t` has its partitions on the brokers NODE_ID, in rack `here`, and OTHER, in rack `there`."""

    partition_count = 1

    def setUp(self) -> None:
        super().setUp()
        self.metadata, self.partitions = self.node.broker.metadata, self.node.broker.partitions
        self.register(broker(NODE_ID, "here"), broker(OTHER, "there"))
        self.replicas = Replicas(
            NODE_ID,
            self.node.broker.runtime,
            self.partitions,
            ReplicaSettings(),
            FetcherSettings(NODE_ID, InterBrokerProtocol.parse("3.9")),
            unconnected,
            Proposals(),
        )
        now(self.replicas.brokers_changed(dict(self.metadata.image.brokers.items())))

    def register(self, *brokers: BrokerRegistration) -> None:
        for each in brokers:
            for name in each.listeners:
                listener = Listener(name, "", PORT, "PLAINTEXT", "", PORT)
                self.node.broker.node.listeners.setdefault(name, listener)
        now(self.metadata.publish(Delta.of(*map(BrokerRegistered, brokers))))

    def order(self, leader: int, epoch: int = 0, isr: tuple[int, ...] = (NODE_ID, OTHER)) -> None:
        """Lead or follow, as the controller would order; clients hear of it."""
        state = PartitionState(leader, (NODE_ID, OTHER), isr, epoch, epoch)
        states = dict.fromkeys(range(self.partition_count), state)
        topic = TopicImage("t", TOPIC_ID, PersistentMap(states))
        known = "t" in self.metadata.topics
        change = PartitionsChanged("t", states) if known else TopicCreated(topic)
        self.assertEqual(now(self.replicas.apply(topic, set(states), {})), {})
        now(self.metadata.publish(Delta.of(change)))

    @property
    def log(self) -> Any:
        return self.partitions.hosted["t", 0].log

    def follower_fetches(self, offset: int, start: int = 0) -> None:
        """Let broker OTHER fetch, so that it has the records before `offset`."""
        replication = self.partitions.led["t", 0].replication
        assert replication is not None
        epoch = self.partitions.led["t", 0].leader_epoch
        replication.follower_fetched(FollowerFetch(OTHER, epoch, offset, log_start_offset=start))

    def leader_answers(self, records: bytes = b"", high_watermark: int = 0, **fields: Any) -> None:
        """Give the follower the answer to its fetch."""
        following: Any = self.partitions.hosted["t", 0].followed
        request = following.next_request()
        assert isinstance(request, FetchFrom)
        following.fetched(request, PartitionData(0, 0, high_watermark, records=records, **fields))
