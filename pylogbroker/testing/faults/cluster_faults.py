"""Faults of the cluster: leaders and coordinators that move or are missing, other brokers, old metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pylogbroker.broker.assembly import Broker
from pylogbroker.metadata.delta import Delta, PartitionsChanged
from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.testing.faults.fields import GROUP, TRANSACTION
from pylogbroker.testing.faults.names import unknown
from pylogbroker.testing.faults.pretended_cluster import PretendedCluster


@attrs.define(eq=False, repr=False)
class ClusterFaults:
    """Methods for tests; any thread may call them. The brokers that a test names here exist in metadata alone.

    A broker of a real cluster raises ValueError: its leaders move by themselves.
    """

    _pretended: PretendedCluster
    _broker: Callable[[], Broker]
    _run: Callable[..., Any]

    def move_leader(self, topic: str, partition: int = 0, *, to: int) -> None:
        """Let another broker lead a partition, in a new leader epoch."""
        self._run(self._move_leader, topic, partition, to)

    def remove_leader(self, topic: str, partition: int = 0) -> None:
        """Leave a partition without leader, until `move_leader`."""
        self._run(self._move_leader, topic, partition, NO_LEADER)

    def move_coordinator(self, *, group: str | None = None, transactional_id: str | None = None, to: int) -> None:
        """Let another broker coordinate a group or a transactional id; -1 is none."""
        self._run(self._move_coordinator, group, transactional_id, to)

    def add_broker(self, broker: int) -> None:
        """Show one more broker; it leads nothing."""
        self._run(self._add_broker, broker)

    def remove_broker(self, broker: int) -> None:
        """Show a broker no more, and close its connections."""
        self._run(self._pretended.doors.close, broker)

    def lag_metadata(self) -> None:
        """Answer requests for metadata as of now, until `update_metadata`."""
        self._run(lambda: self._pretended.lag(self._broker().metadata.image))

    def update_metadata(self) -> None:
        self._pretended.catch_up()

    async def _move_leader(self, topic: str, partition: int, to: int) -> None:
        broker = self._alone()
        if topic not in broker.metadata.topics:
            raise unknown("topic", topic, broker.metadata.topics)
        if partition not in broker.metadata.topics[topic].partitions:
            raise ValueError(f"topic {topic} has no partition {partition}")
        if to != NO_LEADER:
            await self._add_broker(to)
        await next_leader_epoch(broker, topic, partition)
        self._pretended.lead(broker.metadata.topics[topic], partition, to)

    async def _move_coordinator(self, group: str | None, transactional_id: str | None, to: int) -> None:
        self._alone()
        if to != NO_LEADER:
            await self._add_broker(to)
        if group is not None:
            self._pretended.coordinate(GROUP, group, to)
        if transactional_id is not None:
            self._pretended.coordinate(TRANSACTION, transactional_id, to)

    async def _add_broker(self, broker: int) -> None:
        if broker != self._alone().node.id:
            await self._pretended.doors.open(broker)

    def _alone(self) -> Broker:
        broker = self._broker()
        if broker.config.in_cluster:
            raise ValueError("the broker is a member of a cluster: stop another member, or move its leaders by a tool")
        return broker


async def next_leader_epoch(broker: Broker, topic: str, partition: int) -> None:
    """Let the broker lead a partition in its next leader epoch."""
    before = broker.metadata.topics[topic].partitions[partition]
    after = attrs.evolve(before, leader_epoch=before.leader_epoch + 1)
    await broker.metadata.publish(Delta.of(PartitionsChanged(topic, {partition: after})))
