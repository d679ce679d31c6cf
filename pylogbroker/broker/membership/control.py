"""Requests to the cluster's controller, for handlers, as a protocol.

Each method raises KafkaError, NOT_CONTROLLER unless this broker is the controller.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pylogbroker.controller.isr_changes import WantedIsr
from pylogbroker.controller.requested_elections import ElectionKind
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import ClusterImage, PartitionKey, PartitionState
from pylogbroker.metadata.zk_schema import ProducerIdBlock


class PlacementControl(Protocol):
    """Requests about leaders and replicas, of clients; a broker that is alone answers them, too.

    Calls take effect one after the other, in their order.
    """

    @property
    def image(self) -> ClusterImage:
        """The cluster as the controller knows it, without topics under deletion."""

    async def elect_leaders(
        self, kind: ElectionKind, keys: Iterable[PartitionKey] | None, /
    ) -> dict[PartitionKey, ErrorCode]: ...

    async def alter_reassignments(
        self, targets: Mapping[PartitionKey, Sequence[int] | None], /, *, keeps_factor: bool = False
    ) -> dict[PartitionKey, KafkaError | None]:
        """Begin or cancel reassignments; with `keeps_factor`, reject another number of replicas."""

    async def list_reassignments(
        self, keys: Iterable[PartitionKey] | None, /
    ) -> dict[PartitionKey, PartitionState]: ...


class ClusterControl(PlacementControl, Protocol):
    """Requests of brokers, too."""

    async def alter_partitions(
        self,
        broker_id: int,
        broker_epoch: int,
        changes: Mapping[PartitionKey, WantedIsr],
        topic_ids: Mapping[str, uuid.UUID],
        /,
    ) -> dict[PartitionKey, PartitionState | ErrorCode]:
        """Change ISRs for a leader; a topic that has another id than the given one gets UNKNOWN_TOPIC_ID."""

    async def shut_down_broker(self, broker_id: int, broker_epoch: int, /) -> list[PartitionKey]: ...

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int, /) -> ProducerIdBlock: ...


class HasPlacementControl(Protocol):
    """Any broker, for APIs about leaders and replicas."""

    @property
    def cluster_control(self) -> PlacementControl: ...


class HasClusterControl(Protocol):
    """Member of a cluster, for APIs that need its controller."""

    @property
    def cluster_control(self) -> ClusterControl: ...
