"""A client that moves replicas: it reassigns partitions, also of internal topics, and cancels that now and then."""

from __future__ import annotations

from typing import Final

from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pylogbroker.wire.messages.metadata import MetadataRequest
from tests.simulation.clients import Client
from tests.simulation.cluster import SimulatedCluster

_CANCELLED_SHARE: Final = 0.15
_FEWER_SHARE: Final = 0.3
_REPLICAS_MIN: Final = 2
_SECONDS_MAX: Final = 2.0
"""Time between two reassignments."""


class Reassigner(Client):
    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        super().__init__(cluster, number)
        self.accepted = 0

    async def act(self) -> None:
        await self.pause(self.rng.random() * _SECONDS_MAX)
        if self.cluster.lossy:  # the broker without its last records might be the only one of the target in sync
            return
        topic, index = self.rng.choice(sorted(self.cluster.states()))
        partition = ReassignablePartition(index, self._target())
        request = AlterPartitionReassignmentsRequest(2000, [ReassignableTopic(topic, [partition])])
        response = await self.try_to_ask(self.any_broker(), MetadataRequest([]))
        if response is None or response.controller_id not in self.cluster.brokers:
            return
        self.cluster.reassigned_at = self.cluster.world.now
        answer = await self.try_to_ask(response.controller_id, request)
        if answer is not None and not answer.error_code:
            self.accepted += not answer.responses[0].partitions[0].error_code

    def _target(self) -> list[int] | None:
        if self.rng.random() < _CANCELLED_SHARE:
            return None
        count = _REPLICAS_MIN if self.rng.random() < _FEWER_SHARE else self.cluster.setup.replicas
        return self.rng.sample(list(self.cluster.brokers), count)
