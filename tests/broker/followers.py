"""Followers of a partition that a node alone in its cluster leads."""

from __future__ import annotations

import attrs

from pylogbroker.broker.replication.leadership import Leadership
from pylogbroker.broker.replication.log_view import ReplicaLogView
from pylogbroker.metadata.image import BrokerRegistration, PartitionState
from pylogbroker.replication import IsrChange, LeaderReplica, ReplicationSettings
from tests.broker.nodes import NODE_ID, Node


@attrs.define
class Proposals:
    """Changes of ISRs that leaders proposed."""

    made: list[IsrChange] = attrs.field(factory=list)

    def propose(self, leadership: Leadership, change: IsrChange, delay_ms: int) -> None:
        self.made.append(change)


def lead(node: Node, topic: str, *followers: int, isr: tuple[int, ...] = (NODE_ID,), min_insync: int = 1) -> Leadership:
    """Let partition 0 have replicas on other brokers too; its high watermark stays."""
    partition = node.broker.partitions.find(topic, 0)
    brokers = {broker: BrokerRegistration(broker) for broker in (NODE_ID, *followers)}
    state = PartitionState(NODE_ID, tuple(brokers), isr, partition.leader_epoch)
    settings, now_ms = ReplicationSettings(min_insync), node.broker.runtime.now_ms
    view, high_watermark = ReplicaLogView(partition.log), partition.log.high_watermark
    leader = LeaderReplica(NODE_ID, view, state, brokers, settings, high_watermark, now_ms())
    topic_id = node.broker.metadata.topics[topic].id
    leadership = Leadership(partition, leader, topic_id, now_ms, Proposals())
    partition.replicate(leadership, high_watermark)
    return leadership
